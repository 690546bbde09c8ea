/* The sensor head of a baccarat shoe. Read this first, then head.c: what it does; hal.c: with what. */
#include "hal.h"
#include "head.h"

#define SAVE_TICKS 4u        /* 2 ms: what a reset may forget */
#define SUPPLY_TICKS 1024u   /* half a second */

static struct survivor survivors[COPIES] __attribute__((section(".noinit")));
static uint8_t survivor_turn;
static struct head head;
static uint8_t frame[HEAD_FRAME_BYTES];

/* Both stay out of main's own frame, which lasts for ever. */
__attribute__((noinline)) static void start(void);
__attribute__((noinline)) static void keep(void);

static void survive(void) {
    struct survivor survivor = head_survivor(&head);
    survivor.turn = ++survivor_turn;
    survivor_write(survivors, &survivor);
}

static void start(void) {
    struct record slots[SLOTS];
    const struct survivor before = survivor_read(survivors, (hal_reset_cause & HEAD_CAUSE_POWER) != 0);
    hal_eeprom_read(0, slots, sizeof slots);
    survivor_turn = before.turn;
    head_start(&head, &before, hal_reset_cause, BUILD, slots);
    survive(); /* or a reset that follows at once would count as this one */
    hal_start();
    frame[0] = 0; /* ends what a reset may have cut off */
    hal_send(frame, 1);
}

/* What is sampled is judged. The watchdog is fed by samples alone. */
static void judge(void) {
    struct sample sample;
    uint8_t dropped;
    while (hal_sample(&sample)) {
        head_sample(&head, &sample);
        hal_emitters(head_emitters(&head));
        if (head.now % SAVE_TICKS == 0)
            survive();
        if (head.now % SUPPLY_TICKS == 1)
            hal_measure_supply();
        hal_feed();
    }
    dropped = hal_dropped();
    if (dropped > 0)
        head_lost(&head, dropped);
    (void)hal_supply(&head.supply_mv);
}

static void listen(void) {
    uint8_t byte;
    if (hal_spoiled())
        head_spoiled(&head);
    while (hal_receive(&byte))
        head_receive(&head, byte);
}

static void speak(void) {
    uint8_t size;
    if (!hal_line_free())
        return;
    size = head_frame(&head, frame);
    if (size > 0)
        hal_send(frame, size);
}

static void keep(void) {
    uint16_t address;
    uint8_t byte;
    struct record back;
    if (!hal_eeprom_ready())
        return;
    if (store_next(&head.store, &address, &byte)) {
        hal_eeprom_write(address, byte);
    } else if (store_written(&head.store, &address)) {
        hal_eeprom_read(address, &back, sizeof back);
        head_kept(&head, &back);
    }
}

int main(void) {
    start();
    for (;;) {
        judge();
        listen();
        speak();
        keep();
        hal_rest();
    }
}
