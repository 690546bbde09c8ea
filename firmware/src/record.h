/* The thresholds as the EEPROM keeps them: two records, of which the newer good one counts. A write goes to the other
 * one, so that a torn one leaves what was. */
#ifndef RECORD_H
#define RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "levels.h"

#define SLOTS 2u

struct record {
    uint16_t protocol;   /* HEAD_PROTOCOL of who wrote it */
    uint16_t generation; /* one more than the last; goes round */
    struct threshold thresholds[CHANNELS];
    uint16_t check; /* of all before it */
};

/* True: both of each channel are within the ADC's range and HEAD_SWING_MIN apart. */
bool record_sane(const struct threshold thresholds[CHANNELS]);

/* The slot of the newest good record; SLOTS: none is good. */
uint8_t record_newest(const struct record slots[SLOTS]);

struct record record_make(const struct threshold thresholds[CHANNELS], uint16_t generation);

#endif
