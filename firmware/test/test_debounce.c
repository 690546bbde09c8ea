/* debounce.c: tables of what a line shows, tick by tick, and what then stands. */
#include "../src/debounce.h"
#include "check.h"

struct story {
    const char *what;
    const char *shown;  /* a tick a letter: `#` True, `-` False */
    const char *stands; /* and what stands in that tick, before it is sampled */
};

/* It settles in 4: a change stands when the other level outweighs by so much, however it flickers. */
static const struct story stories[] = {
    {"a clean edge", "----######", "--------##"},
    {"a spike leaves nothing behind", "-###------####--", "--------------##"},
    {"chatter is one change (bug report 7)", "-#-##-#####", "---------##"},
    {"flickers weigh one against the other", "-##-##-##-##-##-##", "---------#########"},
    {"and less than half comes to nothing", "-#--#--#--#--#--#--", "-------------------"},
    {"and back again", "####----", "----####"},
};

static void check_story(const struct story *story) {
    struct debounce line;
    bool changed = false;
    debounce_restart(&line, false, 0, 4);
    for (ticks now = 1; story->shown[now - 1] != '\0'; now++) {
        const bool before = line.level;
        changed = debounce_elapse(&line);
        CHECK_EQUAL(changed, before != line.level);
        if (line.level != (story->stands[now - 1] == '#'))
            printf("%s: tick %u\n", story->what, (unsigned)now);
        CHECK_EQUAL(line.level, story->stands[now - 1] == '#');
        debounce_sample(&line, story->shown[now - 1] == '#', now);
    }
}

static void a_change_has_the_time_of_its_first_sample(void) {
    struct debounce line;
    debounce_restart(&line, false, 0xFFFFFFF0u, 4);
    for (ticks now = 0xFFFFFFF1u; now != 0x20; now++) {
        debounce_elapse(&line);
        debounce_sample(&line, now - 0xFFFFFFFEu < 0x10 && now != 1, now);
        if (line.level && now < 0x10)
            CHECK_EQUAL(line.since, 0xFFFFFFFEu);
    }
    CHECK_EQUAL(line.level, false);
    CHECK_EQUAL(line.since, 0xE);
}

static void a_burst_that_comes_to_nothing_is_over(void) {
    struct debounce line;
    debounce_restart(&line, false, 0, 4);
    debounce_sample(&line, true, 1);
    CHECK(line.open);
    debounce_elapse(&line);
    debounce_sample(&line, false, 2);
    for (unsigned tick = 0; tick < 5; tick++) {
        CHECK(line.open);
        CHECK(!debounce_elapse(&line));
    }
    CHECK(!line.open);
}

int main(void) {
    for (unsigned index = 0; index < sizeof stories / sizeof *stories; index++)
        check_story(&stories[index]);
    a_change_has_the_time_of_its_first_sample();
    a_burst_that_comes_to_nothing_is_over();
    return failures;
}
