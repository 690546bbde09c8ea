/* What the reflectance sensor read, on the mean, in the first half of a time whose end is not known yet. */
#ifndef REFLECT_H
#define REFLECT_H

#include <stdint.h>

#define REFLECT_BINS 8u

struct reflect {
    uint32_t sum; /* of the bin that fills */
    uint16_t added;
    uint16_t width;              /* samples in a bin */
    uint16_t bins[REFLECT_BINS]; /* means, one after the other */
    uint8_t full;
};

void reflect_restart(struct reflect *reflect);

/* One more sample, in ADC counts. Two minutes are followed; a card that takes longer has long told what it is. */
void reflect_add(struct reflect *reflect, uint16_t level);

/* The mean of the first half, to an eighth of the time; 0 before the first sample. */
uint16_t reflect_mean(const struct reflect *reflect);

#endif
