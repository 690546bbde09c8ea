/* record.c, store.c, survivor.c: what outlives the power, and what outlives a reset. Every byte is torn once. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "../src/frame.h"
#include "../src/store.h"
#include "../src/survivor.h"
#include "check.h"

static const struct threshold wished[CHANNELS] = {{700, 300}, {650, 350}, {200, 300}, {450, 800}};
static const struct threshold others[CHANNELS] = {{701, 300}, {650, 350}, {200, 300}, {450, 800}};

union eeprom {
    struct record slots[SLOTS];
    uint8_t bytes[SLOTS * sizeof(struct record)];
};

/* Writes what the store wants, but no more than `most` bytes; false: the power went first. */
static bool written(struct store *store, union eeprom *eeprom, unsigned most) {
    uint16_t address;
    uint8_t byte;
    for (; store_next(store, &address, &byte); most--) {
        if (most == 0) {
            eeprom->bytes[address] = 0xFF; /* erased, and not yet written */
            return false;
        }
        eeprom->bytes[address] = byte;
    }
    CHECK(store_written(store, &address));
    return store_verify(store, (const struct record *)&eeprom->bytes[address]);
}

static bool in_force(const struct store *store, const struct threshold *thresholds) {
    return memcmp(store->thresholds, thresholds, sizeof store->thresholds) == 0;
}

static void an_empty_eeprom_has_the_firmwares_own(void) {
    union eeprom eeprom;
    struct store store;
    memset(&eeprom, 0xFF, sizeof eeprom);
    store_start(&store, eeprom.slots);
    CHECK_EQUAL(store.generation, 0);
    CHECK(record_sane(store.thresholds));
}

static void a_torn_write_leaves_what_was(void) {
    for (unsigned most = 0; most < sizeof(struct record); most++) {
        union eeprom eeprom;
        struct store store;
        memset(&eeprom, 0xFF, sizeof eeprom);
        store_start(&store, eeprom.slots);
        CHECK(store_set(&store, wished) && written(&store, &eeprom, 100));
        CHECK(store_set(&store, others));
        CHECK(!written(&store, &eeprom, most));
        CHECK(in_force(&store, wished));
        store_start(&store, eeprom.slots);
        CHECK_EQUAL(store.generation, 1);
        CHECK(in_force(&store, wished));
        CHECK(store_set(&store, others) && written(&store, &eeprom, 100));
        store_start(&store, eeprom.slots);
        CHECK_EQUAL(store.generation, 2);
        CHECK(in_force(&store, others));
    }
}

static void slots_take_turns_and_the_newer_counts(void) {
    union eeprom eeprom;
    struct store store;
    memset(&eeprom, 0xFF, sizeof eeprom);
    eeprom.slots[1] = record_make(wished, 0xFFFE);
    for (unsigned round = 0; round < 5; round++) {
        static const uint16_t generations[] = {0xFFFF, 1, 2, 3, 4}; /* 0 means that none is kept */
        const struct threshold *next = round % 2 == 0 ? others : wished;
        store_start(&store, eeprom.slots);
        CHECK(!store_set(&store, round % 2 == 0 ? wished : others)); /* the same again wears nothing */
        CHECK(store_set(&store, next) && written(&store, &eeprom, 100));
        CHECK_EQUAL(store.generation, generations[round]);
        CHECK_EQUAL(store.slot, round % 2);
    }
}

static void an_eeprom_that_keeps_nothing_is_found_out(void) {
    struct store store;
    const struct record blank = {0};
    union eeprom eeprom;
    memset(&eeprom, 0xFF, sizeof eeprom);
    store_start(&store, eeprom.slots);
    CHECK(store_set(&store, wished));
    CHECK(!store_verify(&store, &blank));
    CHECK(!store.busy && !in_force(&store, wished));
}

static void no_bit_of_a_record_may_differ(void) {
    for (unsigned bit = 0; bit < 8 * sizeof(struct record); bit++) {
        union eeprom eeprom = {.slots = {record_make(wished, 1), record_make(others, 2)}};
        eeprom.bytes[sizeof(struct record) + bit / 8] ^= (uint8_t)(1 << bit % 8);
        CHECK_EQUAL(record_newest(eeprom.slots), 0);
    }
}

static void a_record_of_another_protocol_is_none(void) {
    struct record slots[SLOTS] = {record_make(wished, 1), record_make(others, 2)};
    slots[1].protocol = HEAD_PROTOCOL + 1u;
    slots[1].check = crc16(CRC16_START, &slots[1], offsetof(struct record, check));
    CHECK_EQUAL(record_newest(slots), 0);
}

static void what_is_sane(void) {
    static const struct {
        struct threshold threshold;
        bool sane;
    } cases[] = {{{0, 40}, true},   {{40, 0}, true},     {{39, 0}, false},
                 {{0, 39}, false}, {{1023, 983}, true}, {{1024, 500}, false}};
    for (unsigned index = 0; index < sizeof cases / sizeof *cases; index++)
        for (unsigned channel = 0; channel < CHANNELS; channel++) {
            struct threshold thresholds[CHANNELS];
            memcpy(thresholds, wished, sizeof thresholds);
            thresholds[channel] = cases[index].threshold;
            CHECK_EQUAL(record_sane(thresholds), cases[index].sane);
        }
}

/* A reset may come at any byte of a copy that is being written: the other one is whole. */
static void one_copy_is_always_whole(void) {
    struct survivor copies[COPIES], found;
    memset(copies, 0xA5, sizeof copies);
    found = survivor_read(copies, false);
    CHECK(found.boots == 0 && found.last_ms == LAST_UNKNOWN && found.lost == LOST_UNKNOWN);
    for (unsigned turn = 1; turn < 600; turn++) {
        struct survivor next = {.last_ms = turn, .boots = 7, .turn = (uint8_t)turn};
        struct survivor torn[COPIES];
        const unsigned kept = (unsigned)rand() % sizeof next;
        survivor_write(copies, &next);
        found = survivor_read(copies, false);
        CHECK_EQUAL(found.last_ms, turn);
        memcpy(torn, copies, sizeof torn);
        for (unsigned byte = kept; byte < sizeof next; byte++)
            ((uint8_t *)&torn[turn % COPIES])[byte] ^= 0x5A;
        found = survivor_read(torn, false);
        if (turn > 1)
            CHECK_EQUAL(found.last_ms, turn - 1);
    }
    found = survivor_read(copies, true);
    CHECK(found.boots == 0 && found.lost == LOST_UNKNOWN && found.counters.cards == 0);
}

int main(void) {
    srand(1);
    an_empty_eeprom_has_the_firmwares_own();
    a_torn_write_leaves_what_was();
    slots_take_turns_and_the_newer_counts();
    an_eeprom_that_keeps_nothing_is_found_out();
    no_bit_of_a_record_may_differ();
    a_record_of_another_protocol_is_none();
    what_is_sane();
    one_copy_is_always_whole();
    return failures;
}
