/* The sensor head's firmware on a simulated ATmega328P: libsimavr 1.6, and what it leaves out. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include <simavr/avr_adc.h>
#include <simavr/avr_eeprom.h>
#include <simavr/avr_extint.h>
#include <simavr/avr_ioport.h>
#include <simavr/avr_uart.h>
#include <simavr/sim_avr.h>
#include <simavr/sim_elf.h>

/* Data addresses of the ATmega328P. */
#define R_EECR 0x3Fu
#define R_EEARL 0x41u
#define R_EEARH 0x42u
#define R_MCUSR 0x54u
#define R_UBRR0L 0xC4u
#define R_UBRR0H 0xC5u
#define R_UCSR0A 0xC0u
#define EEPE 0x02u
#define EEMPE 0x04u
#define U2X 0x02u
#define RAM_BEGIN 0x100u
#define WATCHDOG 8u

#define LID_PIN 4
#define EMITTER_PIN 0

#define EEPROM_CYCLES (BENCH_HZ / 10000u * 34u) /* a byte takes 3.4 ms */
#define LIMIT_CYCLES 100000u                    /* the longest run between two looks at the clock */
#define PAINT 0xA5u                             /* what memory holds after power came, for who looks at the stack */
#define PAINT_RUN 4u /* what was pushed may look like it */
#define RECEIVE_DEPTH 2u

enum kind { RUN_END, LEVEL, LID, SUPPLY, RECEIVE, SENT, RESET };

struct event {
    uint64_t at;
    uint64_t order; /* of two at a time, the one that was put in line first */
    uint64_t value; /* a voltage, level, byte or cause */
    uint64_t span;  /* a ramp, a hold */
    enum kind kind;
    unsigned channel;
};

struct channel {
    uint64_t begin, ramp;
    int from, to;
    int dark; /* -1: does not see the emitters */
};

struct bench {
    avr_t *avr;
    avr_run_t run_raw;
    avr_uart_t *uart;
    avr_eeprom_t *eeprom;
    struct event *events; /* a heap */
    size_t events_count, events_room;
    uint64_t order;
    bool ended;
    struct channel channels[BENCH_CHANNELS];
    unsigned noise;
    enum bench_pin lid;
    bool emitters;
    uint64_t byte_cycles;
    uint64_t received_at; /* when the last byte to the head is over */
    struct bench_byte *sent;
    size_t sent_count, sent_room;
    uint64_t random;
    unsigned errors[2];
    int fault[2]; /* -1: none */
    uint64_t eeprom_busy_until;
    uint8_t eeprom_control; /* as it was written last */
    unsigned resets, overruns;
    uint64_t slept;
    uint64_t alive_since; /* the last reset's end */
};

/* --- small things -------------------------------------------------------------------------------- */

static uint64_t chance(struct bench *bench) { /* xorshift64* */
    bench->random ^= bench->random >> 12;
    bench->random ^= bench->random << 25;
    bench->random ^= bench->random >> 27;
    return (bench->random * 0x2545F4914F6CDD1Dull) >> 32;
}

static void *grown(void *array, size_t count, size_t *room, size_t size) {
    if (count < *room)
        return array;
    *room = *room * 2 + 64;
    array = realloc(array, *room * size);
    if (array == NULL)
        abort();
    return array;
}

static void *module(const struct bench *bench, const char *kind) {
    avr_io_t *io = bench->avr->io_port;
    while (io != NULL && strcmp(io->kind, kind) != 0)
        io = io->next;
    return io;
}

static avr_irq_t *irq(const struct bench *bench, uint32_t from, int index) {
    return avr_io_getirq(bench->avr, from, index);
}

/* --- events: a heap, the earliest first ---------------------------------------------------------- */

static bool earlier(const struct event *a, const struct event *b) {
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static void swap(struct event *a, struct event *b) {
    const struct event held = *a;
    *a = *b;
    *b = held;
}

static avr_cycle_count_t due(avr_t *avr, avr_cycle_count_t when, void *param);

static void wake(struct bench *bench) {
    avr_t *avr = bench->avr;
    const uint64_t at = bench->events_count > 0 ? bench->events[0].at : UINT64_MAX;
    avr_cycle_timer_cancel(avr, due, bench);
    if (at != UINT64_MAX)
        avr_cycle_timer_register(avr, at > avr->cycle ? at - avr->cycle : 1, due, bench);
}

static void put(struct bench *bench, struct event event) {
    struct event *heap;
    size_t place = bench->events_count++;
    bench->events = grown(bench->events, place, &bench->events_room, sizeof *bench->events);
    heap = bench->events;
    event.order = bench->order++;
    heap[place] = event;
    for (; place > 0 && earlier(&heap[place], &heap[(place - 1) / 2]); place = (place - 1) / 2)
        swap(&heap[place], &heap[(place - 1) / 2]);
    if (place == 0)
        wake(bench);
}

static struct event take(struct bench *bench) {
    struct event *heap = bench->events;
    const struct event first = heap[0];
    size_t place = 0;
    heap[0] = heap[--bench->events_count];
    for (;;) {
        size_t least = place;
        for (size_t child = 2 * place + 1; child <= 2 * place + 2 && child < bench->events_count; child++)
            if (earlier(&heap[child], &heap[least]))
                least = child;
        if (least == place)
            return first;
        swap(&heap[place], &heap[least]);
        place = least;
    }
}

/* --- pins and voltages --------------------------------------------------------------------------- */

static int voltage(struct bench *bench, unsigned number) {
    const struct channel *channel = &bench->channels[number];
    const uint64_t passed = bench->avr->cycle - channel->begin;
    int mv = channel->to;
    if (passed < channel->ramp)
        mv = channel->from + (int)((channel->to - channel->from) * (int64_t)passed / (int64_t)channel->ramp);
    if (!bench->emitters && channel->dark >= 0)
        mv = channel->dark;
    if (bench->noise > 0)
        mv += (int)(chance(bench) % (2 * bench->noise + 1)) - (int)bench->noise;
    if (mv < 0)
        return 0;
    return mv > (int)bench->avr->avcc ? (int)bench->avr->avcc : mv;
}

/* The chip holds a voltage as its conversion begins; the library reads it as the result is read. */
static void conversion_begins(avr_irq_t *from, uint32_t value, void *param) {
    struct bench *bench = param;
    union {
        avr_adc_mux_t mux;
        uint32_t value;
    } chosen = {.value = value};
    (void)from;
    if (chosen.mux.kind == ADC_MUX_SINGLE && chosen.mux.src < BENCH_CHANNELS)
        avr_raise_irq(irq(bench, AVR_IOCTL_ADC_GETIRQ, (int)chosen.mux.src), (uint32_t)voltage(bench, chosen.mux.src));
}

static void emitters_change(avr_irq_t *from, uint32_t value, void *param) {
    (void)from;
    ((struct bench *)param)->emitters = value != 0;
}

/* A driven pin has its level whatever the port's pull-up says; one that floats has the pull-up's. */
static void set_lid(struct bench *bench) {
    const bool driven = bench->lid != BENCH_FLOAT;
    const bool pulled = (bench->avr->data[0x2B] >> LID_PIN & 1u) != 0; /* PORTD */
    const bool high = driven ? bench->lid == BENCH_HIGH : pulled;
    const uint8_t bit = 1u << LID_PIN;
    avr_ioport_external_t external = {.name = 'D', .mask = driven ? bit : 0, .value = high ? bit : 0};
    avr_ioctl(bench->avr, AVR_IOCTL_IOPORT_SET_EXTERNAL('D'), &external);
    irq(bench, AVR_IOCTL_IOPORT_GETIRQ('D'), LID_PIN)->flags |= IRQ_FLAG_INIT;
    avr_raise_irq(irq(bench, AVR_IOCTL_IOPORT_GETIRQ('D'), LID_PIN), high);
}

static void port_d_written(avr_irq_t *from, uint32_t value, void *param) {
    (void)from;
    (void)value;
    if (((struct bench *)param)->lid == BENCH_FLOAT)
        set_lid(param);
}

/* --- the line ------------------------------------------------------------------------------------ */

/* The library counts a parity bit that is not there, and the baud rate can change only where it is written. */
static void set_pace(struct bench *bench) {
    const uint8_t *data = bench->avr->data;
    const unsigned divisor = (data[R_UBRR0L] | data[R_UBRR0H] << 8) + 1u;
    bench->byte_cycles = 10u * divisor * ((data[R_UCSR0A] & U2X) != 0 ? 8u : 16u);
    bench->uart->cycles_per_byte = bench->byte_cycles;
}

/* What the wire makes of a byte: none, one or two of them, perhaps another one. */
static unsigned carried(struct bench *bench, enum bench_way way, uint8_t *byte, bool *framing) {
    const int fault = bench->fault[way];
    bench->fault[way] = -1;
    *framing = fault == BENCH_FRAMING;
    if (fault == BENCH_FLIP || (bench->errors[way] > 0 && chance(bench) % 1000000u < bench->errors[way]))
        *byte ^= (uint8_t)(1u << chance(bench) % 8u);
    if (fault == BENCH_DROP)
        return 0;
    return fault == BENCH_DOUBLE ? 2 : 1;
}

static unsigned waiting(const uart_fifo_t *bytes) {
    return (unsigned)(bytes->write - bytes->read) % uart_fifo_fifo_size;
}

static void receive(struct bench *bench, uint8_t byte) {
    bool framing;
    for (unsigned copies = carried(bench, BENCH_TO_HEAD, &byte, &framing); copies > 0; copies--) {
        const uint32_t value = byte | (framing ? UART_INPUT_FE : 0u);
        if (waiting(&bench->uart->input) > RECEIVE_DEPTH)
            bench->overruns++;
        avr_raise_irq(irq(bench, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_INPUT), value);
    }
}

/* The library tells of a byte as it begins. */
static void transmission_begins(avr_irq_t *from, uint32_t value, void *param) {
    struct bench *bench = param;
    (void)from;
    put(bench, (struct event){.at = bench->avr->cycle + bench->byte_cycles, .kind = SENT, .value = value & 0xFFu});
}

static void sent(struct bench *bench, uint64_t at, uint8_t byte) {
    bool framing;
    for (unsigned copies = carried(bench, BENCH_FROM_HEAD, &byte, &framing); copies > 0; copies--) {
        bench->sent = grown(bench->sent, bench->sent_count, &bench->sent_room, sizeof *bench->sent);
        bench->sent[bench->sent_count++] = (struct bench_byte){.at = at, .byte = byte};
    }
}

/* --- the EEPROM ---------------------------------------------------------------------------------- */

static void eeprom_control_written(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param) {
    struct bench *bench = param;
    (void)address;
    if ((value & EEPE) != 0 && (bench->eeprom_control & EEMPE) != 0)
        bench->eeprom_busy_until = avr->cycle + EEPROM_CYCLES;
    bench->eeprom_control = value;
}

static uint8_t eeprom_control_read(avr_t *avr, avr_io_addr_t address, void *param) {
    const struct bench *bench = param;
    const uint8_t busy = avr->cycle < bench->eeprom_busy_until ? EEPE : 0;
    return (uint8_t)((avr->data[address] & ~EEPE) | busy); /* the library keeps what is read */
}

static void tear(struct bench *bench) {
    const uint8_t *data = bench->avr->data;
    if (bench->avr->cycle < bench->eeprom_busy_until)
        bench->eeprom->eeprom[data[R_EEARL] | data[R_EEARH] << 8] = 0xFF;
    bench->eeprom_busy_until = 0;
}

/* --- resets -------------------------------------------------------------------------------------- */

/* A reset takes away the library's timers, ours too, and much of what was set in it. */
static void after_reset(struct bench *bench) {
    avr_t *avr = bench->avr;
    uint32_t flags = 0;
    avr->run_cycle_limit = LIMIT_CYCLES;
    avr_ioctl(avr, AVR_IOCTL_UART_SET_FLAGS('0'), &flags); /* neither prints nor sleeps */
    avr_extint_set_strict_lvl_trig(avr, 0, 0);             /* or a low pin is looked at in every cycle */
    avr_extint_set_strict_lvl_trig(avr, 1, 0);
    bench->emitters = false;
    bench->eeprom_control = 0;
    set_lid(bench);
    wake(bench);
}

static void forget_sending(struct bench *bench) {
    size_t kept = 0;
    struct event *old = bench->events;
    const size_t count = bench->events_count;
    bench->events = NULL;
    bench->events_count = bench->events_room = 0;
    for (; kept < count; kept++)
        if (old[kept].kind != SENT)
            put(bench, old[kept]);
    free(old);
}

static void reset(struct bench *bench, unsigned cause, uint64_t hold) {
    avr_t *avr = bench->avr;
    const uint64_t back = avr->cycle + hold;
    const unsigned before = (cause & BENCH_POWER) != 0 ? 0 : avr->data[R_MCUSR]; /* flags stay until they are cleared */
    if (cause != BENCH_EXTERNAL)
        tear(bench);
    avr_reset(avr);
    avr->run = bench->run_raw;
    avr->state = cpu_Running;
    if (cause == BENCH_POWER)
        memset(avr->data + RAM_BEGIN, PAINT, avr->ramend + 1u - RAM_BEGIN);
    avr->data[R_MCUSR] = (uint8_t)(before | cause);
    forget_sending(bench);
    avr->cycle = bench->alive_since = back;
    after_reset(bench);
}

/* --- time ---------------------------------------------------------------------------------------- */

static void happen(struct bench *bench, const struct event *event) {
    struct channel *channel = &bench->channels[event->channel];
    switch (event->kind) {
    case RUN_END:
        bench->ended = true;
        return;
    case LEVEL:
        channel->from = channel->to;
        channel->to = (int)event->value;
        channel->begin = event->at;
        channel->ramp = event->span;
        return;
    case LID:
        bench->lid = (enum bench_pin)event->value;
        set_lid(bench);
        return;
    case SUPPLY:
        bench->avr->vcc = bench->avr->avcc = (uint32_t)event->value;
        return;
    case RECEIVE:
        if (event->at >= bench->alive_since)
            receive(bench, (uint8_t)event->value);
        return;
    case SENT:
        sent(bench, event->at, (uint8_t)event->value);
        return;
    case RESET:
        return;
    }
}

static avr_cycle_count_t due(avr_t *avr, avr_cycle_count_t when, void *param) {
    struct bench *bench = param;
    (void)when;
    while (bench->events_count > 0 && bench->events[0].at <= avr->cycle && bench->events[0].kind != RESET) {
        const struct event event = take(bench);
        happen(bench, &event);
    }
    if (bench->events_count == 0 || bench->events[0].kind == RESET)
        return 0;
    return bench->events[0].at;
}

static void sleeps(avr_t *avr, avr_cycle_count_t cycles) { ((struct bench *)avr->custom.data)->slept += cycles; }

static void step(struct bench *bench) {
    avr_t *avr = bench->avr;
    if (avr->run != bench->run_raw) { /* the watchdog bit: the library resets through it */
        const uint8_t before = avr->data[R_MCUSR];
        avr_run(avr);
        bench->resets++;
        avr->data[R_MCUSR] = before | WATCHDOG;
        forget_sending(bench);
        after_reset(bench);
        return;
    }
    avr_run(avr);
    if (bench->uart->cycles_per_byte != bench->byte_cycles)
        set_pace(bench);
}

void bench_run(struct bench *bench, uint64_t until) {
    bench->ended = false;
    put(bench, (struct event){.at = until, .kind = RUN_END});
    while (!bench->ended && !bench_crashed(bench)) {
        if (bench->events[0].kind == RESET && bench->events[0].at <= bench->avr->cycle) {
            const struct event event = take(bench);
            reset(bench, (unsigned)event.value, event.span);
        }
        step(bench);
    }
}

/* --- what the caller does ------------------------------------------------------------------------ */

struct bench *bench_new(const char *elf) {
    struct bench *bench = calloc(1, sizeof *bench);
    elf_firmware_t firmware = {0};
    if (bench == NULL || elf_read_firmware(elf, &firmware) != 0) {
        free(bench);
        return NULL;
    }
    bench->avr = avr_make_mcu_by_name("atmega328p");
    avr_init(bench->avr);
    firmware.frequency = BENCH_HZ;
    firmware.vcc = firmware.avcc = firmware.aref = 5000;
    avr_load_firmware(bench->avr, &firmware);
    bench->avr->log = LOG_ERROR;
    bench->avr->sleep = sleeps;
    bench->avr->custom.data = bench;
    bench->run_raw = bench->avr->run;
    bench->uart = module(bench, "uart");
    bench->eeprom = module(bench, "eeprom");
    bench->lid = BENCH_LOW;
    bench->random = 1;
    bench->fault[0] = bench->fault[1] = -1;
    for (unsigned channel = 0; channel < BENCH_CHANNELS; channel++)
        bench->channels[channel].dark = -1;
    avr_irq_register_notify(irq(bench, AVR_IOCTL_ADC_GETIRQ, ADC_IRQ_OUT_TRIGGER), conversion_begins, bench);
    avr_irq_register_notify(irq(bench, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_OUTPUT), transmission_begins, bench);
    avr_irq_register_notify(irq(bench, AVR_IOCTL_IOPORT_GETIRQ('B'), EMITTER_PIN), emitters_change, bench);
    avr_irq_register_notify(irq(bench, AVR_IOCTL_IOPORT_GETIRQ('D'), IOPORT_IRQ_REG_PORT), port_d_written, bench);
    avr_register_io_write(bench->avr, R_EECR, eeprom_control_written, bench);
    avr_register_io_read(bench->avr, R_EECR, eeprom_control_read, bench);
    reset(bench, BENCH_POWER, 0);
    return bench;
}

void bench_free(struct bench *bench) {
    avr_terminate(bench->avr);
    free(bench->events);
    free(bench->sent);
    free(bench);
}

uint64_t bench_now(const struct bench *bench) { return bench->avr->cycle; }

void bench_level(struct bench *bench, uint64_t at, unsigned channel, unsigned mv, uint64_t ramp) {
    put(bench, (struct event){.at = at, .kind = LEVEL, .channel = channel, .value = mv, .span = ramp});
}

void bench_dark(struct bench *bench, unsigned channel, unsigned mv) { bench->channels[channel].dark = (int)mv; }

void bench_noise(struct bench *bench, unsigned mv) { bench->noise = mv; }

void bench_lid(struct bench *bench, uint64_t at, enum bench_pin level) {
    put(bench, (struct event){.at = at, .kind = LID, .value = level});
}

void bench_supply(struct bench *bench, uint64_t at, unsigned mv) {
    put(bench, (struct event){.at = at, .kind = SUPPLY, .value = mv});
}

/* The library takes a byte as its first bit begins, and hands it over when the last is over. */
void bench_receive(struct bench *bench, uint64_t at, uint8_t byte) {
    if (at < bench->received_at)
        at = bench->received_at;
    bench->received_at = at + bench->byte_cycles;
    put(bench, (struct event){.at = at, .kind = RECEIVE, .value = byte});
}

size_t bench_sent(struct bench *bench, struct bench_byte *bytes, size_t room) {
    const size_t count = bench->sent_count < room ? bench->sent_count : room;
    memcpy(bytes, bench->sent, count * sizeof *bytes);
    bench->sent_count -= count;
    memmove(bench->sent, bench->sent + count, bench->sent_count * sizeof *bytes);
    return count;
}

void bench_fault(struct bench *bench, enum bench_way way, enum bench_fault fault) { bench->fault[way] = (int)fault; }

void bench_errors(struct bench *bench, enum bench_way way, unsigned per_million) { bench->errors[way] = per_million; }

void bench_seed(struct bench *bench, uint64_t seed) { bench->random = seed | 1u; }

void bench_reset(struct bench *bench, uint64_t at, enum bench_cause cause, uint64_t hold) {
    put(bench, (struct event){.at = at, .kind = RESET, .value = cause, .span = hold});
}

void bench_patch(struct bench *bench, unsigned address, unsigned word) {
    bench->avr->flash[address] = (uint8_t)word;
    bench->avr->flash[address + 1u] = (uint8_t)(word >> 8);
}

unsigned bench_word(const struct bench *bench, unsigned address) {
    return bench->avr->flash[address] | (unsigned)bench->avr->flash[address + 1u] << 8;
}

unsigned bench_peek(const struct bench *bench, unsigned address) { return bench->avr->data[address]; }

void bench_poke(struct bench *bench, unsigned address, unsigned byte) { bench->avr->data[address] = (uint8_t)byte; }

uint8_t *bench_eeprom(struct bench *bench, size_t *size) {
    *size = bench->eeprom->size;
    return bench->eeprom->eeprom;
}

bool bench_emitters(const struct bench *bench) { return bench->emitters; }

unsigned bench_resets(const struct bench *bench) { return bench->resets; }

unsigned bench_overruns(const struct bench *bench) { return bench->overruns; }

uint64_t bench_slept(const struct bench *bench) { return bench->slept; }

unsigned bench_stack(const struct bench *bench) {
    const avr_t *avr = bench->avr;
    unsigned low = avr->ramend + 1u, paint = 0; /* so many bytes below that nobody has written */
    for (unsigned at = low; at > RAM_BEGIN && paint < PAINT_RUN; at--) {
        paint = avr->data[at - 1u] == PAINT ? paint + 1u : 0;
        if (paint == 0)
            low = at - 1u;
    }
    return avr->ramend + 1u - low;
}

bool bench_crashed(const struct bench *bench) {
    return bench->avr->state == cpu_Crashed || bench->avr->state == cpu_Done;
}
