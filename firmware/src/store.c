/* The thresholds in force, and a record on its way to the EEPROM. Knows no EEPROM. */
#include "store.h"

#include <string.h>

#include "../protocol/protocol.h"

/* For sensors that conduct in light, with a pull-up: an interrupted beam and the black cut card are dark and read high,
 * a card in the mouth reflects and reads low. A broken wire is a beam interrupted, a cut card, or an empty mouth. */
static const struct threshold own[CHANNELS] = {{600, 400}, {600, 400}, {600, 400}, {400, 600}};

static void put_in_force(struct store *store, const struct threshold thresholds[CHANNELS]) {
    memcpy(store->thresholds, thresholds, sizeof store->thresholds);
}

void store_start(struct store *store, const struct record slots[SLOTS]) {
    const uint8_t newest = record_newest(slots);
    const bool kept = newest < SLOTS && record_sane(slots[newest].thresholds);
    *store = (struct store){.slot = kept ? newest : SLOTS - 1u, .generation = kept ? slots[newest].generation : 0};
    put_in_force(store, kept ? slots[newest].thresholds : own);
}

static uint16_t address_of(uint8_t slot) { return (uint16_t)(slot * sizeof(struct record)); }

static uint8_t other(const struct store *store) { return (uint8_t)(SLOTS - 1u - store->slot); }

bool store_set(struct store *store, const struct threshold thresholds[CHANNELS]) {
    const uint16_t generation = (uint16_t)(store->generation + 1u);
    if (store->generation != 0 && memcmp(store->thresholds, thresholds, sizeof store->thresholds) == 0)
        return false;
    store->writing = record_make(thresholds, generation != 0 ? generation : 1u);
    store->written = 0;
    store->busy = true;
    return true;
}

bool store_next(struct store *store, uint16_t *address, uint8_t *byte) {
    if (!store->busy || store->written == sizeof store->writing)
        return false;
    *address = (uint16_t)(address_of(other(store)) + store->written);
    *byte = ((const uint8_t *)&store->writing)[store->written++];
    return true;
}

bool store_written(const struct store *store, uint16_t *address) {
    *address = address_of(other(store));
    return store->busy && store->written == sizeof store->writing;
}

bool store_verify(struct store *store, const struct record *back) {
    store->busy = false;
    if (memcmp(back, &store->writing, sizeof *back) != 0)
        return false;
    store->slot = other(store);
    store->generation = back->generation;
    put_in_force(store, back->thresholds);
    return true;
}
