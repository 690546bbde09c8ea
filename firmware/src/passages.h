/* What the two beams of the exit saw, as controller/link/passages.py says it: only what the beams prove. */
#ifndef PASSAGES_H
#define PASSAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "cutcard.h"
#include "ledger.h"
#include "limits.h"

/* Where the exit stands. What the beams show, inner and outer, is part of it: `-` clear, `#` covered. */
enum place {
    IDLE,     /* - - */
    ENTERING, /* # -  a front between the beams */
    OVER,     /* # #  a card over both */
    DOUBT,    /* # -  the outer beam cleared: a front went back, or a card left with the next one behind it */
    LEAVING,  /* - #  a tail between the beams */
    TIGHT,    /* # #  a tail between the beams, and the inner one covered again */
    POKED,    /* - #  from outside */
    PUSHED,   /* # #  from outside, and the inner one too */
    ODD,      /* - #  what covers the outer beam, and how much of it, is not known */
    MUDDLE,   /* # #  the same, and the inner one too */
};

struct glitches { /* of one beam: the times of the last ones */
    ticks at[HEAD_FLICKER_COUNT];
    uint8_t count;
    uint8_t next;
};

struct passages {
    enum place place;
    ticks idle_since;
    ticks judged;      /* when the card last judged covered the inner beam ... */
    bool judged_known; /* ... where that was seen */
    bool left;         /* the last step told that something left */
    bool entered_known;
    bool touched; /* the card in the exit reached the outer beam before */
    ticks entered;
    ticks over;    /* when the outer beam was covered */
    ticks cleared; /* when the inner one cleared */
    ticks again;   /* when the beam that was clear is covered a second time */
    ticks doubt;   /* when DOUBT began */
    uint8_t odd;   /* what made it ODD */
    uint16_t reflected; /* told with what leaves; the caller sets it before each step */
    uint8_t alone[BEAMS]; /* how often in a row the other beam saw something that this one did not */
    struct glitches glitches[BEAMS];
};

/* The beams are read, and what went before is not known. Glitches and lone beams stay counted. */
void passages_restart(struct passages *exit, bool inner, bool outer, ticks now);

/* The next change of a beam: it is the other way round since `at`. */
void passages_step(struct passages *exit, enum part beam, ticks at, struct ledger *ledger, struct cutcard *cut);

/* True: `deadline` is when a card that may have left is to be told as ambiguous. */
bool passages_deadline(const struct passages *exit, ticks *deadline);

/* The deadline has passed: the card behind the one that may have left stays where it is. */
void passages_expire(struct passages *exit, struct ledger *ledger);

/* True: the beam had a glitch, the last one at `at`. */
bool passages_restless(const struct passages *exit, enum part beam, ticks *at);

#endif
