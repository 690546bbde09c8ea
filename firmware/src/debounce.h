/* A bouncing line into levels that stand, as controller/link/debounce.py makes them: time is weighed. */
#ifndef DEBOUNCE_H
#define DEBOUNCE_H

#include <stdbool.h>
#include <stdint.h>

#include "limits.h"

struct debounce {
    ticks since;    /* when the level that stands began */
    ticks began;    /* the first sample of what is not judged yet; means something while `open` */
    uint8_t settle; /* ticks by which the other level must outweigh */
    uint8_t away;   /* ticks by which the other level outweighs */
    uint8_t quiet;  /* ticks for which nothing has spoken for it */
    bool level;
    bool raw;
    bool open; /* something is not judged yet */
};

/* The line stands at `level`, and what went before is not known. */
void debounce_restart(struct debounce *line, bool level, ticks now, uint8_t settle);

/* One tick has passed. True: the level has changed, since `line->since`. */
bool debounce_elapse(struct debounce *line);

/* What the line shows from `now` on; debounce_elapse came before. */
void debounce_sample(struct debounce *line, bool raw, ticks now);

#endif
