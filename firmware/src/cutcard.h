/* What the reflectance sensor saw, as controller/link/cutcard.py says it. */
#ifndef CUTCARD_H
#define CUTCARD_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger.h"
#include "limits.h"

#define CHANGES_MAX 16u /* of one passage: a sensor that changes more often cannot tell */

enum share { SHARE_NONE, SHARE_PART, SHARE_ALL }; /* of a time in which the cut card lay under the sensor */

struct cutcard {
    ticks changes[CHANGES_MAX]; /* when the level changed; the last one to `level` */
    uint8_t newest;
    uint8_t count;
    bool level;
    bool rose_full; /* a card lay in the mouth when the sensor saw the cut card */
    bool warned;
    bool left; /* it left at `left_at`, and the sensor sees it still */
    bool told;
    ticks left_at;
    ticks told_at;
};

struct rest { /* what the other sensors show */
    bool idle; /* the beams are at rest, since `idle_since` */
    bool full; /* a card lies in the mouth, since `full_since` */
    ticks idle_since;
    ticks full_since;
};

/* The level is read, and what went before is not known. */
void cutcard_restart(struct cutcard *cut, bool level, ticks now);

/* The line is the other way round since `at`. `alone`: no beam can tell what leaves the shoe. */
void cutcard_change(struct cutcard *cut, ticks at, bool full, bool alone, struct ledger *ledger);

/* How much of the first half of that time the cut card lay under the sensor; none while that is at fault. */
enum share cutcard_share(const struct cutcard *cut, ticks begin, ticks end, const struct ledger *ledger);

/* The beams saw it leave, and covered it whole since `since`. False: that passage was told already. */
bool cutcard_left(struct cutcard *cut, ticks since, const struct report *report, struct ledger *ledger);

/* A tick has passed: warns of a cut card that waits, and finds a sensor that is stuck. */
void cutcard_elapse(struct cutcard *cut, ticks now, const struct rest *rest, struct ledger *ledger);

#endif
