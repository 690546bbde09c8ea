/* What the sensors told: events in line for the table, counters, and which sensors are at fault.
 *
 * An event leaves the line when the table has it in its journal. Where the line is full, the last place says so, and
 * what comes then is counted: nothing is lost unsaid.
 */
#ifndef LEDGER_H
#define LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "limits.h"

enum part { PART_INNER, PART_OUTER, PART_CUT, PART_PRESENT, PART_LID, PARTS };
#define BEAMS 2u

#define LINE_OF(part) ((uint8_t)((part) + 1u)) /* as the protocol numbers it */

struct report {
    ticks at;
    uint16_t covered_ms; /* this and what follows as EVENT has it */
    uint16_t lag_100us;
    uint16_t reflected;
    uint8_t kind;
    uint8_t line;
    uint8_t why;
    uint8_t flags;
};

#define NOT_SEEN UINT16_MAX /* covered_ms and lag_100us of what left without being seen to enter */

struct counters { /* since power came; they go round */
    uint16_t cards;
    uint16_t glitches;
    uint16_t pullbacks;
    uint16_t resent;
    uint16_t bad_frames;
    uint16_t overflows;
    uint16_t late_ticks;
};

struct ledger {
    struct report waiting[HEAD_QUEUE_EVENTS];
    uint8_t first; /* place of the oldest */
    uint8_t count;
    uint32_t seq;              /* of the oldest, or of the next to be made; the first is 1 */
    uint16_t troubles[PARTS]; /* bits by `why` */
    struct counters counters;
};

void ledger_start(struct ledger *ledger, const struct counters *counters);

/* Puts an event in line. One that is evidence only is left out where places are spare. */
void ledger_tell(struct ledger *ledger, const struct report *report);

/* The event so many behind the oldest. */
const struct report *ledger_at(const struct ledger *ledger, uint8_t behind);

/* Every event up to `seq` is in the journal; returns how many left the line. A number never made counts for nothing. */
uint8_t ledger_acknowledge(struct ledger *ledger, uint32_t seq);

/* A part may be at fault for more than one reason: the first that comes is told, and the last that goes. */
void ledger_fault(struct ledger *ledger, uint8_t part, uint8_t why, ticks at);
void ledger_well(struct ledger *ledger, uint8_t part, uint8_t why, ticks at);
bool ledger_has(const struct ledger *ledger, uint8_t part, uint8_t why);

#endif
