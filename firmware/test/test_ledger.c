/* ledger.c: the line of events, and the faults that stand. */
#include "../src/ledger.h"

#include "check.h"

static const struct counters none;

static void tell(struct ledger *ledger, uint8_t kind) { ledger_tell(ledger, &(struct report){.kind = kind}); }

static void events_leave_in_order(void) {
    struct ledger ledger;
    ledger_start(&ledger, &none);
    for (uint32_t round = 0; round < 20; round++) {
        const uint32_t first = 1 + 3 * round;
        CHECK_EQUAL(ledger.seq, first);
        for (uint8_t at = 0; at < 3; at++)
            tell(&ledger, (uint8_t)(HEAD_KIND_CARD + at % 2u));
        CHECK_EQUAL(ledger_at(&ledger, 1)->kind, HEAD_KIND_TWO);
        CHECK_EQUAL(ledger_acknowledge(&ledger, first - 1), 0);  /* acknowledged long ago */
        CHECK_EQUAL(ledger_acknowledge(&ledger, first + 3), 0);  /* never made */
        CHECK_EQUAL(ledger_acknowledge(&ledger, 0xFFFFFFFFu), 0);
        CHECK_EQUAL(ledger_acknowledge(&ledger, first), 1);
        CHECK_EQUAL(ledger_acknowledge(&ledger, first + 2), 2);
        CHECK_EQUAL(ledger.count, 0);
    }
}

static void the_last_place_says_that_something_is_lost(void) {
    struct ledger ledger;
    ledger_start(&ledger, &none);
    for (uint8_t at = 0; at < HEAD_QUEUE_EVENTS + 2; at++)
        tell(&ledger, HEAD_KIND_CARD);
    CHECK_EQUAL(ledger.count, HEAD_QUEUE_EVENTS);
    CHECK_EQUAL(ledger_at(&ledger, HEAD_QUEUE_EVENTS - 2)->kind, HEAD_KIND_CARD);
    CHECK_EQUAL(ledger_at(&ledger, HEAD_QUEUE_EVENTS - 1)->kind, HEAD_KIND_AMBIGUOUS);
    CHECK_EQUAL(ledger_at(&ledger, HEAD_QUEUE_EVENTS - 1)->why, HEAD_WHY_LOST);
    CHECK_EQUAL(ledger.counters.overflows, 3);
    CHECK_EQUAL(ledger_acknowledge(&ledger, 2), 2);
    tell(&ledger, HEAD_KIND_CARD);
    CHECK_EQUAL(ledger_at(&ledger, HEAD_QUEUE_EVENTS - 2)->kind, HEAD_KIND_CARD);
    CHECK_EQUAL(ledger.seq, 3);
}

static void evidence_leaves_room_for_what_counts(void) {
    static const uint8_t evidence[] = {HEAD_KIND_GLITCH, HEAD_KIND_PULLBACK, HEAD_KIND_WAITING};
    struct ledger ledger;
    ledger_start(&ledger, &none);
    for (uint8_t at = 0; at < 30; at++)
        tell(&ledger, evidence[at % 3u]);
    CHECK_EQUAL(ledger.count, HEAD_QUEUE_EVENTS - HEAD_SPARE_EVENTS + 1);
    CHECK_EQUAL(ledger.counters.overflows, 0);
    tell(&ledger, HEAD_KIND_REVERSE);
    CHECK_EQUAL(ledger_at(&ledger, (uint8_t)(ledger.count - 1u))->kind, HEAD_KIND_REVERSE);
}

static void a_part_is_at_fault_once(void) {
    struct ledger ledger;
    ledger_start(&ledger, &none);
    ledger_well(&ledger, PART_CUT, HEAD_WHY_STUCK, 1);
    CHECK_EQUAL(ledger.count, 0);
    ledger_fault(&ledger, PART_CUT, HEAD_WHY_STUCK, 2);
    ledger_fault(&ledger, PART_CUT, HEAD_WHY_STUCK, 3);
    ledger_fault(&ledger, PART_CUT, HEAD_WHY_BLIND, 4);
    CHECK(ledger_has(&ledger, PART_CUT, HEAD_WHY_BLIND) && !ledger_has(&ledger, PART_CUT, HEAD_WHY_FLICKERS));
    ledger_well(&ledger, PART_CUT, HEAD_WHY_STUCK, 5);
    CHECK_EQUAL(ledger.count, 1);
    ledger_well(&ledger, PART_CUT, HEAD_WHY_BLIND, 6);
    CHECK_EQUAL(ledger.count, 2);
    CHECK_EQUAL(ledger_at(&ledger, 0)->kind, HEAD_KIND_STUCK);
    CHECK_EQUAL(ledger_at(&ledger, 0)->line, HEAD_LINE_CUT);
    CHECK_EQUAL(ledger_at(&ledger, 0)->why, HEAD_WHY_STUCK);
    CHECK_EQUAL(ledger_at(&ledger, 1)->kind, HEAD_KIND_CLEAR);
    CHECK_EQUAL(ledger_at(&ledger, 1)->at, 6);
}

int main(void) {
    events_leave_in_order();
    the_last_place_says_that_something_is_lost();
    evidence_leaves_room_for_what_counts();
    a_part_is_at_fault_once();
    return failures;
}
