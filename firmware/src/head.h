/* The sensor head: samples and bytes in, frames out. The protocol's page says what it promises the table. */
#ifndef HEAD_H
#define HEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "frame.h"
#include "ledger.h"
#include "levels.h"
#include "sensors.h"
#include "store.h"
#include "survivor.h"

#define VERSION_MAJOR 1u
#define VERSION_MINOR 0u
#define VERSION_PATCH 0u

struct head {
    ticks now;
    uint32_t uptime_ms;
    struct sensors sensors;
    struct ledger ledger;
    struct levels levels;
    struct store store;
    struct reader reader;
    uint16_t boots;   /* this one's number */
    uint32_t last_ms; /* of the boot before, as is `lost` */
    uint8_t lost;
    uint32_t boot;          /* its name; 0: none yet */
    uint32_t build;
    uint16_t supply_mv;
    uint8_t cause;
    uint8_t lines; /* HEAD_SEEN_..., before debouncing */
    bool sampled;  /* there was a first sample */
    /* the line to the table */
    uint8_t owed; /* answers and messages that are due */
    uint8_t refused;
    uint8_t refused_why;
    uint8_t sent;  /* events of the queue that need no sending before `sent_at` is HEAD_RESEND_MS ago */
    uint8_t tried; /* events of the queue that were sent before */
    ticks sent_at;
    ticks hello_at;
    ticks beat_at;
    /* the self-test */
    uint8_t test_ticks; /* since it began; 0: none runs */
    uint16_t lit[CHANNELS];
    uint16_t dark[CHANNELS];
};

/* `before` is what survived; `cause` of the reset; `slots` what the EEPROM holds. */
void head_start(struct head *head, const struct survivor *before, uint8_t cause, uint32_t build,
                const struct record slots[SLOTS]);

/* The next tick. */
void head_sample(struct head *head, const struct sample *sample);

/* So many samples were lost before the next one: what moved meanwhile is not known. */
void head_lost(struct head *head, uint8_t samples);

/* A byte came from the table; head_spoiled: one was lost or broken on the line. */
void head_receive(struct head *head, uint8_t byte);
void head_spoiled(struct head *head);

/* A record was written, and `back` was read back. */
void head_kept(struct head *head, const struct record *back);

/* The next frame, to be sent at once; 0: none is due. */
uint8_t head_frame(struct head *head, uint8_t frame[HEAD_FRAME_BYTES]);

/* False: the emitters are to be off. */
bool head_emitters(const struct head *head);

/* What is to survive a reset that came now. */
struct survivor head_survivor(const struct head *head);

#endif
