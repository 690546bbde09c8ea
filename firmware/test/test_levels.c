/* levels.c, reflect.c: thresholds both ways round, and means. */
#include "../src/levels.h"

#include "../protocol/protocol.h"
#include "../src/reflect.h"
#include "check.h"

static void thresholds_work_both_ways_round(void) {
    static const struct threshold thresholds[CHANNELS] = {{600, 400}, {400, 600}, {250, 350}, {350, 250}};
    static const struct {
        uint16_t level;
        uint8_t before, after;
    } cases[] = {
        {0, 15, HEAD_SEEN_OUTER | HEAD_SEEN_CUT},       {0, 0, HEAD_SEEN_OUTER | HEAD_SEEN_CUT},
        {250, 0, HEAD_SEEN_OUTER | HEAD_SEEN_CUT},      {251, 12, HEAD_SEEN_OUTER | HEAD_SEEN_CUT | HEAD_SEEN_PRESENT},
        {300, 12, HEAD_SEEN_OUTER | 12},                {300, 0, HEAD_SEEN_OUTER},
        {350, 12, HEAD_SEEN_OUTER | HEAD_SEEN_PRESENT}, {400, 15, HEAD_SEEN_OUTER | HEAD_SEEN_PRESENT},
        {500, 3, 3 | HEAD_SEEN_PRESENT},                {599, 0, HEAD_SEEN_PRESENT},
        {600, 2, HEAD_SEEN_INNER | HEAD_SEEN_PRESENT},  {1023, 0, HEAD_SEEN_INNER | HEAD_SEEN_PRESENT},
    };
    for (unsigned index = 0; index < sizeof cases / sizeof *cases; index++) {
        struct sample sample = {.lid = true};
        for (unsigned channel = 0; channel < CHANNELS; channel++)
            sample.level[channel] = cases[index].level;
        CHECK_EQUAL(levels_lines(thresholds, &sample, cases[index].before), cases[index].after | HEAD_SEEN_LID);
        sample.lid = false;
        CHECK_EQUAL(levels_lines(thresholds, &sample, cases[index].before | HEAD_SEEN_LID), cases[index].after);
    }
}

static void a_mean_is_of_whole_samples(void) {
    struct levels levels = {0};
    for (uint16_t at = 0; at < 2 * MEAN_SAMPLES; at++) {
        const struct sample sample = {.level = {at, 1023, 0, (uint16_t)(100 * at)}};
        CHECK_EQUAL(levels_add(&levels, &sample), at % MEAN_SAMPLES == MEAN_SAMPLES - 1);
    }
    CHECK_EQUAL(levels.mean[0], 11);
    CHECK_EQUAL(levels.mean[1], 1023);
    CHECK_EQUAL(levels.mean[3], 1150);
}

/* Dark in the first half, light in the second: only the first is asked for, however long it takes. */
static void the_first_half_counts(void) {
    for (unsigned long length = 2; length < MANY(100000ul); length = length * 3 / 2 + 1) {
        struct reflect reflect;
        reflect_restart(&reflect);
        CHECK_EQUAL(reflect_mean(&reflect), 0);
        for (unsigned long at = 0; at < length; at++)
            reflect_add(&reflect, at <= length * 5 / 8 ? 180 : 900);
        CHECK_EQUAL(reflect_mean(&reflect), 180);
    }
}

static void what_takes_for_ever_is_followed_for_a_while(void) {
    struct reflect reflect;
    reflect_restart(&reflect);
    for (unsigned long at = 0; at < 600000; at++)
        reflect_add(&reflect, at < 500000 ? 1023 : 0);
    CHECK_EQUAL(reflect_mean(&reflect), 1023);
}

int main(void) {
    thresholds_work_both_ways_round();
    a_mean_is_of_whole_samples();
    the_first_half_counts();
    what_takes_for_ever_is_followed_for_a_while();
    return failures;
}
