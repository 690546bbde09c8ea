/* A bouncing line into levels that stand. Knows no clock and no register. */
#include "debounce.h"

void debounce_restart(struct debounce *line, bool level, ticks now, uint8_t settle) {
    *line = (struct debounce){.since = now, .settle = settle, .level = level, .raw = level};
}

bool debounce_elapse(struct debounce *line) {
    if (!line->open)
        return false;
    if (line->raw == line->level) {
        if (line->away > 0)
            line->away--;
        else if (++line->quiet >= line->settle)
            line->open = false;
        return false;
    }
    if (++line->away < line->settle)
        return false;
    line->level = line->raw;
    line->since = line->began;
    line->away = line->quiet = 0;
    line->open = false;
    return true;
}

void debounce_sample(struct debounce *line, bool raw, ticks now) {
    line->raw = raw;
    if (raw == line->level)
        return;
    line->quiet = 0;
    if (!line->open)
        line->began = now;
    line->open = true;
}
