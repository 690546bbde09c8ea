/* What memory keeps over a reset that is no power cut: two copies, written in turn, so that one is always whole. */
#ifndef SURVIVOR_H
#define SURVIVOR_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger.h"

#define COPIES 2u
#define LAST_UNKNOWN UINT32_MAX
#define LOST_UNKNOWN UINT8_MAX

struct survivor {
    uint32_t last_ms; /* the boot's clock at the last sample */
    uint16_t boots;   /* this one's number, the first since power came is 1 */
    uint8_t lost;     /* events without an ACK, and one more if a passage was not over */
    uint8_t turn;     /* one more in each copy than in the one before it */
    struct counters counters;
    uint16_t check; /* of all before it */
};

/* The newer whole copy. Without one, or if power came, nothing is known of the boot before. */
struct survivor survivor_read(const struct survivor copies[COPIES], bool power_came);

/* Writes the copy whose turn it is, its check included. */
void survivor_write(struct survivor copies[COPIES], struct survivor *survivor);

#endif
