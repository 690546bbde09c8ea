/* The thresholds as the EEPROM keeps them. Knows no EEPROM. */
#include "record.h"

#include <stddef.h>

#include "frame.h"

static uint16_t check_of(const struct record *record) {
    return crc16(CRC16_START, record, offsetof(struct record, check));
}

static bool apart(const struct threshold *threshold) {
    const uint16_t high = threshold->on > threshold->off ? threshold->on : threshold->off;
    const uint16_t low = threshold->on > threshold->off ? threshold->off : threshold->on;
    return high <= HEAD_LEVEL_MAX && high - low >= (int)HEAD_SWING_MIN;
}

bool record_sane(const struct threshold thresholds[CHANNELS]) {
    for (uint8_t channel = 0; channel < CHANNELS; channel++)
        if (!apart(&thresholds[channel]))
            return false;
    return true;
}

static bool good(const struct record *record) {
    return record->protocol == HEAD_PROTOCOL && record->check == check_of(record);
}

uint8_t record_newest(const struct record slots[SLOTS]) {
    const bool first = good(&slots[0]), second = good(&slots[1]);
    if (first && second)
        return (int16_t)(slots[1].generation - slots[0].generation) > 0 ? 1 : 0;
    if (first)
        return 0;
    return second ? 1 : SLOTS;
}

struct record record_make(const struct threshold thresholds[CHANNELS], uint16_t generation) {
    struct record record = {.protocol = HEAD_PROTOCOL, .generation = generation};
    for (uint8_t channel = 0; channel < CHANNELS; channel++)
        record.thresholds[channel] = thresholds[channel];
    record.check = check_of(&record);
    return record;
}
