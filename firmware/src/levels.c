/* What the channels read, and what it comes to. */
#include "levels.h"

#include "../protocol/protocol.h"

void levels_restart(struct levels *levels) {
    levels->count = 0;
    for (uint8_t channel = 0; channel < CHANNELS; channel++)
        levels->sum[channel] = 0;
}

bool levels_add(struct levels *levels, const struct sample *sample) {
    for (uint8_t channel = 0; channel < CHANNELS; channel++)
        levels->sum[channel] = (uint16_t)(levels->sum[channel] + sample->level[channel]);
    if (++levels->count < MEAN_SAMPLES)
        return false;
    for (uint8_t channel = 0; channel < CHANNELS; channel++)
        levels->mean[channel] = levels->sum[channel] / MEAN_SAMPLES;
    levels_restart(levels);
    return true;
}

/* True: the level is at or beyond the threshold, seen from the other one. */
static bool beyond(uint16_t level, uint16_t threshold, uint16_t other) {
    return threshold > other ? level >= threshold : level <= threshold;
}

uint8_t levels_lines(const struct threshold thresholds[CHANNELS], const struct sample *sample, uint8_t lines) {
    uint8_t bit = HEAD_SEEN_INNER;
    for (uint8_t channel = 0; channel < CHANNELS; channel++) {
        const struct threshold *threshold = &thresholds[channel];
        if (beyond(sample->level[channel], threshold->on, threshold->off))
            lines |= bit;
        else if (beyond(sample->level[channel], threshold->off, threshold->on))
            lines = (uint8_t)(lines & ~bit);
        bit = (uint8_t)(bit << 1);
    }
    return sample->lid ? lines | HEAD_SEEN_LID : (uint8_t)(lines & ~HEAD_SEEN_LID);
}
