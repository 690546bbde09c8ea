/* cutcard.c: each cut card is told once, and however long the table rests, the next one and the next card are known. */
#include "../src/cutcard.h"

#include "check.h"

#define DAYS(count) (24ul * (count) * (TICKS(60000000ul) * 60ul))

static const struct counters none;

static bool leaves(struct cutcard *cut, struct ledger *ledger, ticks since, ticks at) {
    return cutcard_left(cut, since, &(struct report){.at = at, .kind = HEAD_KIND_CUT}, ledger);
}

/* The table rests from `at` on, perhaps with a beam covered; looked at once an hour, rarer than the head does. */
static ticks rests(struct cutcard *cut, struct ledger *ledger, ticks at, uint16_t days, bool idle) {
    const struct rest rest = {.idle = idle, .full = true, .idle_since = at, .full_since = at};
    for (uint16_t hour = 0; hour < 24u * days; hour++)
        cutcard_elapse(cut, at += DAYS(1) / 24u, &rest, ledger);
    return at;
}

static void one_passage_is_told_once(void) {
    struct cutcard cut = {0};
    struct ledger ledger;
    ledger_start(&ledger, &none);
    cutcard_restart(&cut, false, 0);
    cutcard_change(&cut, 1000, true, true, &ledger);
    cutcard_change(&cut, 1200, true, true, &ledger);
    CHECK_EQUAL(ledger.count, 1); /* no beam was to be trusted */
    CHECK(!leaves(&cut, &ledger, 1010, 1196)); /* and yet they saw it, out before the sensor had seen its end */
    CHECK(!leaves(&cut, &ledger, 1200, 1250));
    CHECK_EQUAL(ledger.count, 1);
    CHECK(leaves(&cut, &ledger, 1201, 1300));
    CHECK_EQUAL(ledger.count, 2);
}

static void a_long_rest_hides_nothing(uint16_t days, bool idle) {
    struct cutcard cut = {0};
    struct ledger ledger;
    ticks at = 0xFFFFF000u;
    ledger_start(&ledger, &none);
    cutcard_restart(&cut, false, at);
    for (uint8_t change = 0; change < CHANGES_MAX; change++)
        cutcard_change(&cut, at += 400u, true, false, &ledger);
    CHECK(leaves(&cut, &ledger, at - 200u, at));
    at = rests(&cut, &ledger, at, days, idle);
    CHECK_EQUAL(cutcard_share(&cut, at - 300u, at - 100u, &ledger), SHARE_NONE); /* a card, at once */
    cutcard_change(&cut, at, true, false, &ledger);
    CHECK_EQUAL(cutcard_share(&cut, at, at + 200u, &ledger), SHARE_ALL);
    CHECK(leaves(&cut, &ledger, at, at + 300u));
}

int main(void) {
    one_passage_is_told_once();
    for (uint16_t days = 1; days < 60; days++) {
        a_long_rest_hides_nothing(days, true);
        a_long_rest_hides_nothing(days, false);
    }
    return failures;
}
