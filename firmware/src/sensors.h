/* The sensors of the shoe, as controller/link/edges.py puts them together: debounced, in order of time, classified. */
#ifndef SENSORS_H
#define SENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "cutcard.h"
#include "debounce.h"
#include "ledger.h"
#include "passages.h"
#include "reflect.h"

#define CHANGES_WAIT_MAX 28u /* more than one beam can do while the other cannot make up its mind */
_Static_assert(CHANGES_WAIT_MAX > CHATTER / SETTLE + 2u, "the changes of one burst have room");

struct change { /* of a beam, which waits for an earlier one of the other */
    uint16_t at; /* the lower half of the tick: none waits for long */
    uint8_t beam;
};

struct sensors {
    struct debounce lines[PARTS];
    struct passages exit;
    struct cutcard cut;
    struct reflect reflect;
    struct change changes[CHANGES_WAIT_MAX]; /* in order of time */
    ticks judged_to; /* how far in time the exit was told */
    uint8_t changes_count;
    uint8_t unseen;        /* cards in a row that came out of a mouth that seemed empty */
    bool told[PARTS];      /* mouth and lid: `told_level` was told */
    bool told_level[PARTS];
    bool restless[BEAMS]; /* a flickering beam did so at `restless_at` */
    ticks restless_at[BEAMS];
};

/* The levels are read, a bit each (HEAD_SEEN_...), and what went before is not known. */
void sensors_restart(struct sensors *sensors, uint8_t levels, ticks now, struct ledger *ledger);

/* One tick: what the lines show from `now` on, and what is sure by then. */
void sensors_step(struct sensors *sensors, uint8_t levels, uint16_t reflected, ticks now, struct ledger *ledger);

/* Samples were lost: what moved meanwhile is not known. sensors_restart follows. */
void sensors_lose(ticks now, struct ledger *ledger);

/* The levels that stand, and HEAD_SEEN_MOVING. */
uint8_t sensors_seen(const struct sensors *sensors);

#endif
