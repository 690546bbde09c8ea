/* The sensor head: samples and bytes in, frames out. Knows no register; time is the count of its samples. */
#include "head.h"

#include <stddef.h>
#include <string.h>

enum { OWED_REFUSED = 1, OWED_THRESHOLDS = 2, OWED_TESTED = 4, OWED_LEVELS = 8, OWED_HELLO = 16, OWED_BEAT = 32 };

#define RESEND TICKS(HEAD_RESEND_MS * 1000ul)
#define HELLO_EACH TICKS(HEAD_HELLO_MS * 1000ul)
#define BEAT_EACH TICKS(HEAD_BEAT_MS * 1000ul)

/* The self-test: dark after so many ticks, its mean from then on, light again, and no judgement before its end. */
#define TEST_DARK 8u
#define TEST_LIGHT (TEST_DARK + MEAN_SAMPLES)
#define TEST_END (TEST_LIGHT + 8u)
_Static_assert(TEST_END * TICK_US < HEAD_PASSAGE_MS * 1000u, "no card can pass unseen");

void head_start(struct head *head, const struct survivor *before, uint8_t cause, uint32_t build,
                const struct record slots[SLOTS]) {
    *head = (struct head){.cause = cause, .build = build, .owed = OWED_HELLO};
    head->boots = (uint16_t)(before->boots + 1u);
    head->last_ms = before->last_ms;
    head->lost = before->lost;
    ledger_start(&head->ledger, &before->counters);
    store_start(&head->store, slots);
}

/* --- what the table asks ------------------------------------------------------------------------- */

static bool moving(const struct head *head) { return (sensors_seen(&head->sensors) & HEAD_SEEN_MOVING) != 0; }

static uint8_t faults(const struct head *head) {
    uint8_t bits = 0;
    for (uint8_t part = 0; part < PARTS; part++)
        if (head->ledger.troubles[part] != 0)
            bits = (uint8_t)(bits | 1u << part);
    return bits;
}

/* A beam at fault stands for no card: a head with wrong thresholds or a dead emitter must be mended all the same. */
static bool in_passage(const struct head *head) {
    return moving(head) && (faults(head) & (HEAD_SEEN_INNER | HEAD_SEEN_OUTER)) == 0;
}

static void refuse(struct head *head, uint8_t message, uint8_t why) {
    head->refused = message;
    head->refused_why = why;
    head->owed |= OWED_REFUSED;
}

static void name(struct head *head, const head_name_t *asked) {
    if (head->boot == 0 && asked->boots == head->boots)
        head->boot = asked->boot;
    head->owed |= OWED_HELLO;
}

static void acknowledged(struct head *head, const head_ack_t *ack) {
    uint8_t gone;
    if (head->boot == 0 || ack->boot != head->boot)
        return;
    gone = ledger_acknowledge(&head->ledger, ack->seq);
    head->sent = head->sent > gone ? (uint8_t)(head->sent - gone) : 0;
    head->tried = head->tried > gone ? (uint8_t)(head->tried - gone) : 0;
}

static void set_thresholds(struct head *head, const head_set_thresholds_t *asked) {
    struct threshold thresholds[CHANNELS];
    _Static_assert(sizeof thresholds == HEAD_SET_THRESHOLDS_BYTES - 1u, "on and off of each channel, in order");
    memcpy(thresholds, &asked->inner_on, sizeof thresholds);
    if (!record_sane(thresholds))
        refuse(head, HEAD_SET_THRESHOLDS, HEAD_REFUSAL_RANGE);
    else if (head->store.busy || in_passage(head))
        refuse(head, HEAD_SET_THRESHOLDS, HEAD_REFUSAL_BUSY);
    else if (!store_set(&head->store, thresholds))
        head->owed |= OWED_THRESHOLDS;
}

static void self_test(struct head *head) {
    if (head->test_ticks != 0)
        return;
    if (in_passage(head)) {
        refuse(head, HEAD_SELF_TEST, HEAD_REFUSAL_BUSY);
        return;
    }
    memcpy(head->lit, head->levels.mean, sizeof head->lit);
    head->test_ticks = 1;
}

/* The bytes of a message that the table may send; 0: it may not. */
static uint8_t bytes_of(uint8_t message) {
    switch (message) {
    case HEAD_NAME:
        return HEAD_NAME_BYTES;
    case HEAD_ACK:
        return HEAD_ACK_BYTES;
    case HEAD_SET_THRESHOLDS:
        return HEAD_SET_THRESHOLDS_BYTES;
    case HEAD_ASK_HELLO:
    case HEAD_ASK_THRESHOLDS:
    case HEAD_ASK_LEVELS:
    case HEAD_SELF_TEST:
        return 1;
    default:
        return 0;
    }
}

static void answer(struct head *head, const uint8_t *body) {
    switch (body[0]) {
    case HEAD_ASK_HELLO:
        head->owed |= OWED_HELLO;
        return;
    case HEAD_NAME:
        name(head, (const head_name_t *)body);
        return;
    case HEAD_ACK:
        acknowledged(head, (const head_ack_t *)body);
        return;
    case HEAD_ASK_THRESHOLDS:
        head->owed |= OWED_THRESHOLDS;
        return;
    case HEAD_SET_THRESHOLDS:
        set_thresholds(head, (const head_set_thresholds_t *)body);
        return;
    case HEAD_ASK_LEVELS:
        head->owed |= OWED_LEVELS;
        return;
    default:
        self_test(head);
    }
}

void head_receive(struct head *head, uint8_t byte) {
    const uint8_t *body = head->reader.body;
    const enum read found = frame_read(&head->reader, byte);
    uint8_t expected;
    if (found == READ_ON)
        return;
    expected = found == READ_FRAME ? bytes_of(body[0]) : 0;
    if (expected != 0 && head->reader.size == expected) {
        answer(head, body);
        return;
    }
    head->ledger.counters.bad_frames++;
    if (found == READ_FRAME)
        refuse(head, body[0], expected == 0 ? HEAD_REFUSAL_UNKNOWN : HEAD_REFUSAL_LENGTH);
}

void head_spoiled(struct head *head) {
    head->ledger.counters.bad_frames++;
    frame_spoil(&head->reader);
}

void head_kept(struct head *head, const struct record *back) {
    if (store_verify(&head->store, back))
        head->owed |= OWED_THRESHOLDS;
    else
        refuse(head, HEAD_SET_THRESHOLDS, HEAD_REFUSAL_STORE);
}

/* --- time ---------------------------------------------------------------------------------------- */

static void test_step(struct head *head, bool mean_is_new) {
    head->test_ticks++;
    if (head->test_ticks == TEST_DARK)
        levels_restart(&head->levels);
    if (head->test_ticks == TEST_LIGHT && mean_is_new)
        memcpy(head->dark, head->levels.mean, sizeof head->dark);
    if (head->test_ticks < TEST_END)
        return;
    head->test_ticks = 0;
    head->owed |= OWED_TESTED;
}

bool head_emitters(const struct head *head) { return head->test_ticks == 0 || head->test_ticks >= TEST_LIGHT; }

static void timers(struct head *head) {
    if (head->boot == 0 && head->now - head->hello_at >= HELLO_EACH)
        head->owed |= OWED_HELLO;
    if (head->boot != 0 && head->now - head->beat_at >= BEAT_EACH) {
        head->beat_at = head->now;
        head->owed |= OWED_BEAT;
    }
    if (head->sent > 0 && head->now - head->sent_at >= RESEND)
        head->sent = 0;
}

void head_sample(struct head *head, const struct sample *sample) {
    const bool mean_is_new = levels_add(&head->levels, sample);
    head->now++;
    if (head->now % TICKS_PER_MS == 0)
        head->uptime_ms++;
    if (head->test_ticks != 0)
        test_step(head, mean_is_new);
    else
        head->lines = levels_lines(head->store.thresholds, sample, head->lines);
    if (head->sampled)
        sensors_step(&head->sensors, head->lines, sample->level[PART_CUT], head->now, &head->ledger);
    else
        sensors_restart(&head->sensors, head->lines, head->now, &head->ledger);
    head->sampled = true;
    timers(head);
}

void head_lost(struct head *head, uint8_t samples) {
    struct counters *counters = &head->ledger.counters;
    counters->late_ticks = (uint16_t)(counters->late_ticks + samples);
    head->now += samples;
    head->uptime_ms += samples / TICKS_PER_MS;
    sensors_lose(head->now, &head->ledger);
    head->sampled = false;
}

/* --- what the table hears ------------------------------------------------------------------------ */

static uint8_t lost_by_now(const struct head *head) {
    const unsigned mine = head->ledger.count + (moving(head) ? 1u : 0u);
    if (head->boot != 0)
        return (uint8_t)mine;
    return mine + head->lost < LOST_UNKNOWN ? (uint8_t)(mine + head->lost) : LOST_UNKNOWN;
}

/* Until this boot has a name, the table knows only the one before: what that lost is still to be told, and when. */
struct survivor head_survivor(const struct head *head) {
    return (struct survivor){
        .last_ms = head->boot != 0 ? head->uptime_ms : head->last_ms,
        .boots = head->boots,
        .lost = lost_by_now(head),
        .counters = head->ledger.counters,
    };
}

static uint8_t hello(struct head *head, head_hello_t *body) {
    head->hello_at = head->now;
    *body = (head_hello_t){
        .number = HEAD_HELLO,
        .protocol = HEAD_PROTOCOL,
        .major = VERSION_MAJOR,
        .minor = VERSION_MINOR,
        .patch = VERSION_PATCH,
        .build = head->build,
        .cause = head->cause,
        .boots = head->boots,
        .boot = head->boot,
        .next = head->ledger.seq,
        .uptime_ms = head->uptime_ms,
        .last_ms = head->last_ms,
        .lost = head->lost,
        .seen = sensors_seen(&head->sensors),
    };
    return sizeof *body;
}

static uint8_t heartbeat(const struct head *head, head_heartbeat_t *body) {
    const struct counters *counters = &head->ledger.counters;
    *body = (head_heartbeat_t){
        .number = HEAD_HEARTBEAT,
        .uptime_ms = head->uptime_ms,
        .next = head->ledger.seq,
        .waiting = head->ledger.count,
        .seen = sensors_seen(&head->sensors),
        .faults = faults(head),
        .supply_mv = head->supply_mv,
    };
    _Static_assert(sizeof *counters == HEAD_HEARTBEAT_BYTES - offsetof(head_heartbeat_t, cards), "in one order");
    memcpy(&body->cards, counters, sizeof *counters);
    return sizeof *body;
}

static uint8_t event(struct head *head, head_event_t *body) {
    const struct report *report = ledger_at(&head->ledger, head->sent);
    *body = (head_event_t){
        .number = HEAD_EVENT,
        .seq = head->ledger.seq + head->sent,
        .age_ms = (head->now - report->at) / TICKS_PER_MS,
        .kind = report->kind,
        .line = report->line,
        .why = report->why,
        .flags = report->flags,
        .covered_ms = report->covered_ms,
        .lag_100us = report->lag_100us,
        .reflected = report->reflected,
    };
    head->sent_at = head->now;
    head->sent++;
    if (head->sent <= head->tried)
        head->ledger.counters.resent++;
    else
        head->tried = head->sent;
    return sizeof *body;
}

static uint8_t thresholds(const struct head *head, head_thresholds_t *body) {
    *body = (head_thresholds_t){
        .number = HEAD_THRESHOLDS,
        .kept = head->store.generation != 0,
        .generation = head->store.generation,
    };
    memcpy(&body->inner_on, head->store.thresholds, sizeof head->store.thresholds);
    return sizeof *body;
}

static uint8_t levels(const struct head *head, head_levels_t *body) {
    *body = (head_levels_t){
        .number = HEAD_LEVELS,
        .seen = sensors_seen(&head->sensors),
        .supply_mv = head->supply_mv,
    };
    memcpy(&body->inner, head->levels.mean, sizeof head->levels.mean);
    return sizeof *body;
}

static uint8_t tested(const struct head *head, head_tested_t *body) {
    *body = (head_tested_t){.number = HEAD_TESTED};
    for (uint8_t channel = 0; channel < CHANNELS; channel++) {
        const uint16_t lit = head->lit[channel], dark = head->dark[channel];
        if ((lit > dark ? lit - dark : dark - lit) >= (int)HEAD_SWING_MIN)
            body->passed = (uint8_t)(body->passed | 1u << channel);
    }
    memcpy(&body->inner_dark, head->dark, sizeof head->dark);
    memcpy(&body->inner_lit, head->lit, sizeof head->lit);
    return sizeof *body;
}

static uint8_t refused(const struct head *head, head_refused_t *body) {
    *body = (head_refused_t){.number = HEAD_REFUSED, .message = head->refused, .why = head->refused_why};
    return sizeof *body;
}

union body {
    head_hello_t hello;
    head_event_t event;
    head_heartbeat_t heartbeat;
    head_thresholds_t thresholds;
    head_levels_t levels;
    head_tested_t tested;
    head_refused_t refused;
};

static bool take(struct head *head, uint8_t message) {
    const bool owed = (head->owed & message) != 0;
    head->owed = (uint8_t)(head->owed & ~message);
    return owed;
}

/* Events go before all that can wait, answers before them: those are asked for one at a time. */
static uint8_t next(struct head *head, union body *body) {
    if (take(head, OWED_REFUSED))
        return refused(head, &body->refused);
    if (take(head, OWED_THRESHOLDS))
        return thresholds(head, &body->thresholds);
    if (take(head, OWED_TESTED))
        return tested(head, &body->tested);
    if (take(head, OWED_LEVELS))
        return levels(head, &body->levels);
    if (take(head, OWED_HELLO))
        return hello(head, &body->hello);
    if (head->boot != 0 && head->sent < head->ledger.count)
        return event(head, &body->event);
    return take(head, OWED_BEAT) ? heartbeat(head, &body->heartbeat) : 0;
}

uint8_t head_frame(struct head *head, uint8_t frame[HEAD_FRAME_BYTES]) {
    union body body;
    const uint8_t size = next(head, &body);
    return size > 0 ? frame_encode(&body, size, frame) : 0;
}
