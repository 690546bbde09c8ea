/* The thresholds in force, and a record on its way to the EEPROM, byte by byte. */
#ifndef STORE_H
#define STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "record.h"

struct store {
    struct threshold thresholds[CHANNELS]; /* in force */
    struct record writing;
    uint16_t generation; /* of the record that keeps them; 0: none does, they are the firmware's own */
    uint8_t slot;        /* where that record is; the other one is written next */
    uint8_t written;     /* bytes of `writing`, while `busy` */
    bool busy;
};

void store_start(struct store *store, const struct record slots[SLOTS]);

/* True: a record with these is on its way to the EEPROM, and in force when it is read back. False: these are kept. */
bool store_set(struct store *store, const struct threshold thresholds[CHANNELS]);

/* True: `byte` is to be written at `address`, the next one when it is. */
bool store_next(struct store *store, uint16_t *address, uint8_t *byte);

/* True: every byte is written, and the record is to be read back from `address`. */
bool store_written(const struct store *store, uint16_t *address);

/* What was read back; false: the EEPROM did not keep it, and what was in force still is. */
bool store_verify(struct store *store, const struct record *back);

#endif
