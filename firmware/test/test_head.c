/* head.c: what the table hears, and that nothing it may say does harm. The real chip has the rest: tests/firmware. */
#include "../src/head.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"

#define BUILD_ID 0xC0FFEEu
#define BOOT 0x12345678u

static const struct record empty[SLOTS];
static const struct survivor power_came = {.last_ms = LAST_UNKNOWN, .lost = LOST_UNKNOWN};
static const struct sample free_exit = {.level = {100, 100, 150, 200}}; /* a card lies in the mouth */

struct table { /* the other end: what it heard last of each message, and how often */
    struct head head;
    struct reader reader;
    uint8_t last[HEAD_REFUSED + 1u][HEAD_BODY_BYTES];
    unsigned heard[HEAD_REFUSED + 1u];
};

static struct table table;

static void hear(void) {
    uint8_t frame[HEAD_FRAME_BYTES];
    const uint8_t size = head_frame(&table.head, frame);
    for (uint8_t at = 0; at < size; at++)
        if (frame_read(&table.reader, frame[at]) == READ_FRAME) {
            const uint8_t number = table.reader.body[0];
            memcpy(table.last[number], table.reader.body, table.reader.size);
            table.heard[number]++;
        }
}

static void say(const void *body, uint8_t size) {
    uint8_t frame[HEAD_FRAME_BYTES];
    const uint8_t length = frame_encode(body, size, frame);
    for (uint8_t at = 0; at < length; at++)
        head_receive(&table.head, frame[at]);
}

static void pass(unsigned milliseconds, const struct sample *sample) {
    for (unsigned tick = 0; tick < milliseconds * TICKS_PER_MS; tick++) {
        head_sample(&table.head, sample);
        hear();
    }
}

static void start(const struct survivor *before) {
    table = (struct table){.reader.joined = true};
    head_start(&table.head, before, HEAD_CAUSE_EXTERNAL, BUILD_ID, empty);
}

static void name(uint16_t boots, uint32_t boot) {
    const head_name_t body = {.number = HEAD_NAME, .boots = boots, .boot = boot};
    say(&body, sizeof body);
}

static void acknowledge(uint32_t boot, uint32_t seq) {
    const head_ack_t body = {.number = HEAD_ACK, .boot = boot, .seq = seq};
    say(&body, sizeof body);
}

static void card(void) {
    struct sample inner = free_exit, both = free_exit, outer = free_exit;
    inner.level[PART_INNER] = both.level[PART_INNER] = both.level[PART_OUTER] = outer.level[PART_OUTER] = 900;
    pass(10, &inner);
    pass(50, &both);
    pass(10, &outer);
    pass(10, &free_exit);
}

#define LAST(type, number) ((const type *)table.last[number])

static void nothing_is_told_before_the_boot_has_a_name(void) {
    start(&power_came);
    pass(50, &free_exit);
    card();
    pass(1000, &free_exit);
    CHECK(table.heard[HEAD_HELLO] >= 5);
    CHECK_EQUAL(table.heard[HEAD_EVENT], 0);
    name(2, BOOT); /* of another start */
    pass(300, &free_exit);
    CHECK_EQUAL(LAST(head_hello_t, HEAD_HELLO)->boot, 0);
    name(1, BOOT);
    name(1, BOOT + 1); /* it has one */
    pass(20, &free_exit);
    CHECK_EQUAL(LAST(head_hello_t, HEAD_HELLO)->boot, BOOT);
    CHECK_EQUAL(LAST(head_hello_t, HEAD_HELLO)->lost, LOST_UNKNOWN);
    CHECK_EQUAL(LAST(head_hello_t, HEAD_HELLO)->build, BUILD_ID);
    CHECK_EQUAL(table.heard[HEAD_EVENT], 3); /* the mouth, the lid, the card */
    CHECK_EQUAL(LAST(head_event_t, HEAD_EVENT)->kind, HEAD_KIND_CARD);
    CHECK_EQUAL(LAST(head_event_t, HEAD_EVENT)->seq, 3);
    CHECK_EQUAL(LAST(head_event_t, HEAD_EVENT)->covered_ms, 60);
    CHECK_EQUAL(LAST(head_event_t, HEAD_EVENT)->lag_100us, 100);
    CHECK_EQUAL(LAST(head_event_t, HEAD_EVENT)->reflected, 150);
    CHECK(LAST(head_event_t, HEAD_EVENT)->age_ms >= 1300);
}

static void events_are_sent_until_they_are_acknowledged(void) {
    const uint8_t ask = HEAD_ASK_HELLO;
    unsigned before;
    start(&power_came);
    name(1, BOOT);
    pass(50, &free_exit);
    card();
    pass(1000, &free_exit);
    CHECK(table.heard[HEAD_EVENT] >= 3 * 9);
    CHECK_EQUAL(LAST(head_heartbeat_t, HEAD_HEARTBEAT)->waiting, 3);
    acknowledge(BOOT + 1, 3);
    acknowledge(BOOT, 4);
    pass(500, &free_exit);
    CHECK_EQUAL(LAST(head_heartbeat_t, HEAD_HEARTBEAT)->waiting, 3);
    acknowledge(BOOT, 2);
    pass(500, &free_exit);
    CHECK_EQUAL(LAST(head_heartbeat_t, HEAD_HEARTBEAT)->waiting, 1);
    CHECK_EQUAL(LAST(head_heartbeat_t, HEAD_HEARTBEAT)->next, 3);
    say(&ask, 1);
    pass(20, &free_exit);
    CHECK_EQUAL(LAST(head_hello_t, HEAD_HELLO)->next, 3);
    acknowledge(BOOT, 3);
    before = table.heard[HEAD_EVENT];
    pass(1000, &free_exit);
    CHECK_EQUAL(table.heard[HEAD_EVENT], before);
    CHECK_EQUAL(LAST(head_heartbeat_t, HEAD_HEARTBEAT)->cards, 1);
    CHECK_EQUAL(LAST(head_heartbeat_t, HEAD_HEARTBEAT)->resent, before - 3);
}

/* Also behind one that was acknowledged a moment ago. */
static void a_new_event_is_sent_at_once_and_is_no_second_sending(void) {
    unsigned before;
    start(&power_came);
    name(1, BOOT);
    pass(50, &free_exit);
    acknowledge(BOOT, 2);
    pass(200, &free_exit);
    before = table.heard[HEAD_EVENT];
    for (uint32_t seq = 3; seq < 6; seq++) {
        card();
        CHECK_EQUAL(table.heard[HEAD_EVENT], ++before);
        CHECK_EQUAL(LAST(head_event_t, HEAD_EVENT)->seq, seq);
        acknowledge(BOOT, seq);
    }
    CHECK_EQUAL(table.head.ledger.counters.resent, 0);
}

/* Until the table has named a boot it knows only the one before: what that one lost is told again. */
static void what_a_reset_lost_is_told_until_somebody_heard_it(void) {
    struct survivor left;
    start(&power_came);
    name(1, BOOT);
    pass(50, &free_exit);
    card();
    left = head_survivor(&table.head);
    CHECK(left.boots == 1 && left.lost == 3 && left.counters.cards == 1 && left.last_ms == 130);
    start(&left);
    pass(100, &free_exit);
    left = head_survivor(&table.head);
    CHECK(left.boots == 2 && left.lost == 3 + 2 && left.last_ms == 130);
    start(&left);
    pass(10, &free_exit);
    CHECK_EQUAL(LAST(head_hello_t, HEAD_HELLO)->boots, 3);
    CHECK_EQUAL(LAST(head_hello_t, HEAD_HELLO)->lost, 5);
    CHECK_EQUAL(LAST(head_hello_t, HEAD_HELLO)->last_ms, 130);
    name(3, BOOT);
    acknowledge(BOOT, 2);
    left = head_survivor(&table.head);
    CHECK(left.lost == 0 && left.last_ms == 10);
    head_sample(&table.head, &(const struct sample){.level = {900, 100, 150, 200}});
    CHECK_EQUAL(head_survivor(&table.head).lost, 1); /* a beam has not settled: perhaps a card is on its way */
}

static void a_test_refuses_to_blind_a_card(void) {
    struct sample dark = {.level = {1000, 1000, 1000, 1000}}, inner = free_exit;
    const uint8_t ask = HEAD_SELF_TEST;
    unsigned blind = 0;
    inner.level[PART_INNER] = 900;
    start(&power_came);
    name(1, BOOT);
    pass(100, &free_exit);
    acknowledge(BOOT, 2);
    pass(20, &inner);
    say(&ask, 1);
    pass(20, &inner);
    CHECK_EQUAL(LAST(head_refused_t, HEAD_REFUSED)->why, HEAD_REFUSAL_BUSY);
    pass(20, &free_exit);
    say(&ask, 1);
    for (unsigned tick = 0; tick < 50; tick++) {
        if (tick % 10 == 9 && tick < 20)
            say(&ask, 1); /* no longer for being asked again */
        blind += !head_emitters(&table.head);
        head_sample(&table.head, head_emitters(&table.head) ? &free_exit : &dark);
        hear();
    }
    CHECK(blind > 0 && blind * TICK_US < HEAD_PASSAGE_MS * 1000u);
    CHECK_EQUAL(table.heard[HEAD_TESTED], 1);
    CHECK_EQUAL(LAST(head_tested_t, HEAD_TESTED)->passed, 15);
    CHECK_EQUAL(LAST(head_tested_t, HEAD_TESTED)->inner_dark, 1000);
    CHECK_EQUAL(LAST(head_tested_t, HEAD_TESTED)->cut_lit, 150);
    CHECK_EQUAL(LAST(head_heartbeat_t, HEAD_HEARTBEAT)->glitches, 0);
    pass(1000, &free_exit);
    CHECK_EQUAL(LAST(head_heartbeat_t, HEAD_HEARTBEAT)->seen, HEAD_SEEN_PRESENT);
}

static void one_record_is_written_at_a_time(void) {
    head_set_thresholds_t wish = {.number = HEAD_SET_THRESHOLDS, .inner_on = 700, .outer_on = 650, .cut_on = 750,
                                  .present_on = 800};
    start(&power_came);
    name(1, BOOT);
    pass(100, &free_exit);
    say(&wish, sizeof wish);
    pass(10, &free_exit);
    wish.inner_on = 710;
    say(&wish, sizeof wish);
    pass(10, &free_exit);
    CHECK_EQUAL(LAST(head_refused_t, HEAD_REFUSED)->message, HEAD_SET_THRESHOLDS);
    CHECK_EQUAL(LAST(head_refused_t, HEAD_REFUSED)->why, HEAD_REFUSAL_BUSY);
    CHECK_EQUAL(table.head.store.writing.thresholds[PART_INNER].on, 700);
}

static void lost_samples_are_told(void) {
    start(&power_came);
    name(1, BOOT);
    pass(100, &free_exit);
    head_lost(&table.head, 20);
    pass(500, &free_exit);
    CHECK_EQUAL(LAST(head_event_t, HEAD_EVENT)->kind, HEAD_KIND_AMBIGUOUS);
    CHECK_EQUAL(LAST(head_event_t, HEAD_EVENT)->why, HEAD_WHY_LOST);
    CHECK_EQUAL(LAST(head_heartbeat_t, HEAD_HEARTBEAT)->late_ticks, 20);
    CHECK_EQUAL(table.head.uptime_ms, 610);
    CHECK_EQUAL(table.head.now, 610 * TICKS_PER_MS); /* or events would be told younger than they are */
}

/* What was under way counts as entered unseen: how long it covered the beam nobody knows. */
static void nothing_is_measured_over_lost_samples(void) {
    struct sample both = free_exit;
    both.level[PART_INNER] = both.level[PART_OUTER] = 900;
    start(&power_came);
    name(1, BOOT);
    pass(100, &free_exit);
    both.level[PART_OUTER] = free_exit.level[PART_OUTER];
    pass(10, &both);
    both.level[PART_OUTER] = 900;
    pass(20, &both);
    head_lost(&table.head, 20);
    pass(20, &both);
    both.level[PART_INNER] = free_exit.level[PART_INNER];
    pass(10, &both);
    pass(20, &free_exit);
    CHECK_EQUAL(LAST(head_event_t, HEAD_EVENT)->kind, HEAD_KIND_CARD);
    CHECK_EQUAL(LAST(head_event_t, HEAD_EVENT)->covered_ms, NOT_SEEN);
}

/* A change that waited for the other beam is of before: what covered that beam may be gone since. */
static void no_change_waits_over_lost_samples(void) {
    start(&power_came);
    name(1, BOOT);
    pass(100, &free_exit);
    for (unsigned tick = 0; tick < 20 * TICKS_PER_MS; tick++) {
        struct sample sample = free_exit;
        sample.level[PART_INNER] = tick >= 10 ? 900 : free_exit.level[PART_INNER];
        sample.level[PART_OUTER] = tick % 2 == 0 ? 900 : free_exit.level[PART_OUTER];
        head_sample(&table.head, &sample);
    }
    CHECK_EQUAL(table.head.sensors.changes_count, 1);
    head_lost(&table.head, 60);
    pass(200, &free_exit);
    CHECK_EQUAL(LAST(head_heartbeat_t, HEAD_HEARTBEAT)->seen, HEAD_SEEN_PRESENT);
    card();
    CHECK_EQUAL(LAST(head_event_t, HEAD_EVENT)->kind, HEAD_KIND_CARD);
}

/* A beam that is free after them is not stuck, though nobody saw it clear. */
static void a_fault_may_end_in_lost_samples(void) {
    struct sample outer = free_exit;
    outer.level[PART_OUTER] = 900;
    start(&power_came);
    name(1, BOOT);
    pass(100, &free_exit);
    pass(10, &outer);
    ledger_fault(&table.head.ledger, PART_OUTER, HEAD_WHY_STUCK, table.head.now);
    head_lost(&table.head, 20);
    pass(200, &outer);
    CHECK_EQUAL(LAST(head_heartbeat_t, HEAD_HEARTBEAT)->faults, HEAD_SEEN_OUTER);
    head_lost(&table.head, 20);
    pass(200, &free_exit);
    CHECK_EQUAL(LAST(head_heartbeat_t, HEAD_HEARTBEAT)->faults, 0);
}

/* A beam that flickers without end is at fault, and the other one does not wait for it. */
static void nobody_waits_for_a_beam_that_flickers(void) {
    const uint16_t free_level = free_exit.level[PART_OUTER];
    start(&power_came);
    pass(100, &free_exit);
    for (unsigned tick = 0; tick < 100 * TICKS_PER_MS; tick++) {
        struct sample sample = free_exit;
        sample.level[PART_OUTER] = tick % 2 == 0 ? 900 : free_level;
        sample.level[PART_INNER] = tick >= 10 * TICKS_PER_MS && tick < 70 * TICKS_PER_MS ? 900 : free_level;
        head_sample(&table.head, &sample);
        if (tick == 60 * TICKS_PER_MS)
            CHECK(ledger_has(&table.head.ledger, PART_OUTER, HEAD_WHY_FLICKERS));
    }
    CHECK_EQUAL(table.head.ledger.counters.pullbacks, 1);
}

/* More changes than any beam can make have no room, and are told; nothing is written beyond it. */
static void a_full_line_of_changes_is_told(void) {
    struct sample inner = free_exit;
    inner.level[PART_INNER] = 900;
    start(&power_came);
    pass(100, &free_exit);
    table.head.sensors.changes_count = CHANGES_WAIT_MAX;
    for (uint8_t at = 0; at < CHANGES_WAIT_MAX; at++)
        table.head.sensors.changes[at] = (struct change){.at = (uint16_t)(table.head.now + 1000), .beam = PART_OUTER};
    table.head.sensors.exit.place = DOUBT;
    table.head.sensors.exit.doubt = table.head.now;
    pass(4, &inner);
    CHECK_EQUAL(table.head.sensors.changes_count, CHANGES_WAIT_MAX);
    CHECK_EQUAL(ledger_at(&table.head.ledger, 2)->why, HEAD_WHY_LOST);
}

/* Whatever is said and seen, the sanitizers find nothing, and every event number follows the last. */
static void noise(void) {
    start(&power_came);
    name(1, BOOT);
    for (unsigned long count = 0; count < MANY(400000ul); count++) {
        struct sample sample = {.lid = rand() % 64 == 0};
        uint8_t body[HEAD_BODY_BYTES];
        for (uint8_t at = 0; at < CHANNELS; at++)
            sample.level[at] = (uint16_t)(rand() % 1024);
        head_sample(&table.head, &sample);
        hear();
        for (uint8_t at = 0; at < sizeof body; at++)
            body[at] = (uint8_t)rand();
        body[0] = (uint8_t)(HEAD_ASK_HELLO + (unsigned)rand() % 8u);
        if (rand() % 4 == 0)
            say(body, (uint8_t)(1 + rand() % 20));
        if (rand() % 512 == 0)
            head_receive(&table.head, (uint8_t)rand());
        if (rand() % 4 == 0)
            acknowledge(BOOT, table.head.ledger.seq + (uint32_t)(rand() % 3) - 1u);
        if (rand() % 4096 == 0)
            head_lost(&table.head, (uint8_t)rand());
        CHECK(table.head.ledger.count <= HEAD_QUEUE_EVENTS);
    }
    CHECK(table.heard[HEAD_EVENT] > MANY(1000) && table.heard[HEAD_REFUSED] > MANY(1000));
    CHECK(table.heard[HEAD_HEARTBEAT] > MANY(100));
}

int main(void) {
    srand(1);
    nothing_is_told_before_the_boot_has_a_name();
    events_are_sent_until_they_are_acknowledged();
    a_new_event_is_sent_at_once_and_is_no_second_sending();
    what_a_reset_lost_is_told_until_somebody_heard_it();
    a_test_refuses_to_blind_a_card();
    one_record_is_written_at_a_time();
    lost_samples_are_told();
    nothing_is_measured_over_lost_samples();
    no_change_waits_over_lost_samples();
    a_fault_may_end_in_lost_samples();
    nobody_waits_for_a_beam_that_flickers();
    a_full_line_of_changes_is_told();
    noise();
    return failures;
}
