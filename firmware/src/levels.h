/* What the channels read, and what it comes to: a line for each, with hysteresis, and means. */
#ifndef LEVELS_H
#define LEVELS_H

#include <stdbool.h>
#include <stdint.h>

#define CHANNELS 4u /* inner, outer, reflectance, mouth: the parts that are not a switch */
#define MEAN_SAMPLES 8u

struct sample { /* of one tick */
    uint16_t level[CHANNELS]; /* ADC counts */
    bool lid;                 /* open */
};

struct threshold { /* ADC counts: the line is True from `on` on, False from `off` on; `on` may be the lower one */
    uint16_t on;
    uint16_t off;
};

struct levels { /* all zero at the start */
    uint16_t sum[CHANNELS];
    uint16_t mean[CHANNELS]; /* of the last MEAN_SAMPLES that were whole */
    uint8_t count;
};

/* Adds a sample; True: the means are new. */
bool levels_add(struct levels *levels, const struct sample *sample);

/* The next mean begins with the next sample. */
void levels_restart(struct levels *levels);

/* The lines (HEAD_SEEN_...) that are True after `lines` were. */
uint8_t levels_lines(const struct threshold thresholds[CHANNELS], const struct sample *sample, uint8_t lines);

#endif
