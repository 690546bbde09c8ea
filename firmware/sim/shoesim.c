/* The sensor head as a process: its line is a pseudo-terminal, its wires are commands on a socket, its time is ours.
 *
 *   shoesim ELF --pty LINK --control SOCKET [--eeprom FILE] [--speed N] [--dtr-reset]
 *
 * LINK becomes a symbolic link to the terminal. A command is a line, and so is its answer: `ok`, what was asked, or
 * `error` and why. `+US` before one lets it happen so many microseconds of the chip from now, `@US` at that time of the
 * chip. What is sent in one piece is taken in one piece: no time passes between. */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#define CYCLES_PER_US (BENCH_HZ / 1000000u)
#define SLICE_US 1000u       /* how far the chip may run ahead of what comes from outside */
#define BEHIND_US 250000u    /* a machine that was away for longer goes on from here: the chip saw no time pass */
#define START_UP_US 65000u   /* the fuses' start-up time */
#define SAID_MOST 16384u
#define BYTES_MOST 512u

struct sim {
    struct bench *bench;
    const char *link, *control, *eeprom;
    uint64_t speed;
    bool dtr_reset;
    int terminal; /* -1: unplugged */
    bool open;    /* somebody has the terminal open */
    int listener, client;
    char line[SAID_MOST];
    size_t length;
};

static volatile sig_atomic_t ended;

static void end(int number) {
    (void)number;
    ended = 1;
}

static _Noreturn void die(const char *what) {
    perror(what);
    exit(1);
}

static uint64_t wall_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

/* --- the terminal -------------------------------------------------------------------------------- */

static void plug(struct sim *sim) {
    struct termios raw;
    const char *name;
    int slave;
    sim->terminal = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (sim->terminal < 0 || grantpt(sim->terminal) != 0 || unlockpt(sim->terminal) != 0)
        die("no pseudo-terminal");
    name = ptsname(sim->terminal);
    slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC); /* until it was open once, nothing tells that it is closed */
    if (slave < 0 || tcgetattr(slave, &raw) != 0)
        die(name);
    cfmakeraw(&raw); /* or it would echo the head's own bytes */
    tcsetattr(slave, TCSANOW, &raw);
    close(slave);
    unlink(sim->link);
    if (symlink(name, sim->link) != 0)
        die(sim->link);
    sim->open = false;
}

static void unplug(struct sim *sim) {
    if (sim->terminal >= 0)
        close(sim->terminal);
    unlink(sim->link);
    sim->terminal = -1;
}

static void watch_terminal(struct sim *sim) {
    struct pollfd look = {.fd = sim->terminal, .events = 0};
    bool open;
    if (sim->terminal < 0)
        return;
    poll(&look, 1, 0);
    open = (look.revents & POLLHUP) == 0;
    if (open && !sim->open && sim->dtr_reset)
        bench_reset(sim->bench, bench_now(sim->bench), BENCH_EXTERNAL, START_UP_US * CYCLES_PER_US);
    sim->open = open;
}

static void carry(struct sim *sim) {
    struct bench_byte sent[BYTES_MOST];
    uint8_t bytes[BYTES_MOST];
    size_t count = bench_sent(sim->bench, sent, BYTES_MOST);
    ssize_t got;
    watch_terminal(sim);
    if (sim->terminal < 0 || !sim->open)
        return; /* nobody listens, and what was sent is gone */
    for (size_t at = 0; at < count; at++)
        bytes[at] = sent[at].byte;
    if (count > 0 && write(sim->terminal, bytes, count) != (ssize_t)count && errno != EAGAIN && errno != EIO)
        die("the terminal");
    got = read(sim->terminal, bytes, sizeof bytes);
    for (ssize_t at = 0; at < got; at++)
        bench_receive(sim->bench, bench_now(sim->bench), bytes[at]);
}

/* --- commands ------------------------------------------------------------------------------------ */

static int word(const char *const words[], const char *asked) {
    for (int index = 0; words[index] != NULL; index++)
        if (strcmp(words[index], asked) == 0)
            return index;
    return -1;
}

static const char *const pins[] = {"low", "high", "float", NULL};
static const char *const ways[] = {"to_head", "from_head", NULL};
static const char *const faults[] = {"flip", "drop", "double", "framing", NULL};
static const char *const causes[] = {"", "power", "external", "", "brownout", "dip", NULL};

static void save(const struct sim *sim) {
    size_t size;
    const uint8_t *bytes = bench_eeprom(sim->bench, &size);
    FILE *file = sim->eeprom != NULL ? fopen(sim->eeprom, "wb") : NULL;
    if (sim->eeprom == NULL)
        return;
    if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
        die(sim->eeprom);
}

static void load(const struct sim *sim) {
    size_t size;
    uint8_t *bytes = bench_eeprom(sim->bench, &size);
    FILE *file = sim->eeprom != NULL ? fopen(sim->eeprom, "rb") : NULL;
    if (file == NULL)
        return; /* a chip from the factory */
    if (fread(bytes, 1, size, file) != size)
        die(sim->eeprom);
    fclose(file);
}

/* Those that do something to the wires; false: it is none of them, or its words are wrong. */
static bool wire(struct bench *bench, uint64_t at, const char *verb, const char *first, const char *second,
                 unsigned long ramp) {
    const unsigned channel = (unsigned)strtoul(first, NULL, 0);
    const unsigned long a = strtoul(second, NULL, 0);
    const bool one = isdigit((unsigned char)first[0]), two = one && isdigit((unsigned char)second[0]);
    if (strcmp(verb, "level") == 0 && two && channel < BENCH_CHANNELS)
        bench_level(bench, at, channel, (unsigned)a, ramp * CYCLES_PER_US);
    else if (strcmp(verb, "dark") == 0 && two && channel < BENCH_CHANNELS)
        bench_dark(bench, channel, (unsigned)a);
    else if (strcmp(verb, "noise") == 0 && one)
        bench_noise(bench, channel);
    else if (strcmp(verb, "supply") == 0 && one)
        bench_supply(bench, at, channel);
    else if (strcmp(verb, "lid") == 0 && word(pins, first) >= 0)
        bench_lid(bench, at, (enum bench_pin)word(pins, first));
    else if (strcmp(verb, "reset") == 0 && word(causes, first) > 0)
        bench_reset(bench, at, (enum bench_cause)word(causes, first), (a > 0 ? a : START_UP_US) * CYCLES_PER_US);
    else if (strcmp(verb, "errors") == 0 && word(ways, first) >= 0)
        bench_errors(bench, (enum bench_way)word(ways, first), (unsigned)a);
    else if (strcmp(verb, "patch") == 0 && two)
        bench_patch(bench, channel, (unsigned)a);
    else if (strcmp(verb, "poke") == 0 && two)
        bench_poke(bench, channel, (unsigned)a);
    else
        return false;
    return true;
}

static bool plugs(struct sim *sim, const char *verb) {
    if (strcmp(verb, "unplug") == 0 && sim->terminal >= 0)
        unplug(sim);
    else if (strcmp(verb, "plug") == 0 && sim->terminal < 0)
        plug(sim);
    else if (strcmp(verb, "save") == 0)
        save(sim);
    else if (strcmp(verb, "quit") == 0)
        ended = 1;
    else
        return false;
    return true;
}

static void obey(struct sim *sim, const char *line) {
    const struct bench *bench = sim->bench;
    char verb[16] = "", first[16] = "", second[16] = "";
    unsigned long ramp = 0;
    const uint64_t now = bench_now(bench);
    uint64_t at = now;
    if (line[0] == '+' || line[0] == '@') {
        at = (line[0] == '+' ? now : 0) + strtoull(line + 1, (char **)&line, 10) * CYCLES_PER_US;
        line += strspn(line, " ");
    }
    if (at < now) {
        dprintf(sim->client, "error: that time is over: %s\n", line);
        return;
    }
    sscanf(line, "%15s %15s %15s %lu", verb, first, second, &ramp);
    if (strcmp(verb, "stats") == 0)
        dprintf(sim->client, "now_us=%llu slept_us=%llu resets=%u overruns=%u stack=%u open=%d emitters=%d\n",
                (unsigned long long)(now / CYCLES_PER_US),
                (unsigned long long)(bench_slept(bench) / CYCLES_PER_US), bench_resets(bench), bench_overruns(bench),
                bench_stack(bench), sim->open, bench_emitters(bench));
    else if (strcmp(verb, "fault") == 0 && word(ways, first) >= 0 && word(faults, second) >= 0) {
        bench_fault(sim->bench, (enum bench_way)word(ways, first), (enum bench_fault)word(faults, second));
        dprintf(sim->client, "ok\n");
    } else if (wire(sim->bench, at, verb, first, second, ramp) || plugs(sim, verb))
        dprintf(sim->client, "ok\n");
    else
        dprintf(sim->client, "error: no such command: %s\n", line);
}

static void listen_to_commands(struct sim *sim) {
    ssize_t got;
    char *newline;
    if (sim->client < 0) {
        sim->client = accept4(sim->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        sim->length = 0;
        return;
    }
    got = recv(sim->client, sim->line + sim->length, SAID_MOST - 1 - sim->length, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN) || sim->length == SAID_MOST - 1) {
        close(sim->client);
        sim->client = -1;
        return;
    }
    sim->length += got > 0 ? (size_t)got : 0;
    while ((newline = memchr(sim->line, '\n', sim->length)) != NULL) {
        *newline = '\0';
        obey(sim, sim->line);
        sim->length -= (size_t)(newline + 1 - sim->line);
        memmove(sim->line, newline + 1, sim->length);
    }
}

/* --- time ---------------------------------------------------------------------------------------- */

static void rest_until(const struct sim *sim, uint64_t us) {
    struct pollfd look[] = {
        {.fd = sim->client >= 0 ? sim->client : sim->listener, .events = POLLIN},
        {.fd = sim->open ? sim->terminal : -1, .events = POLLIN}, /* a closed one would wake us without end */
    };
    const uint64_t now = wall_us();
    if (us > now)
        poll(look, 2, (int)((us - now + 999u) / 1000u));
}

static void live(struct sim *sim) {
    uint64_t wall = wall_us(), chip = bench_now(sim->bench);
    while (!ended && !bench_crashed(sim->bench)) {
        const uint64_t due = chip + (wall_us() - wall) * sim->speed * CYCLES_PER_US;
        uint64_t now = bench_now(sim->bench);
        if (due > now + sim->speed * BEHIND_US * CYCLES_PER_US) {
            wall = wall_us();
            chip = now;
        } else if (due > now) {
            const uint64_t slice = sim->speed * SLICE_US * CYCLES_PER_US;
            bench_run(sim->bench, due < now + slice ? due : now + slice);
        }
        carry(sim);
        listen_to_commands(sim);
        now = bench_now(sim->bench);
        rest_until(sim, wall + (now - chip) / (sim->speed * CYCLES_PER_US) + SLICE_US);
    }
}

/* --- start --------------------------------------------------------------------------------------- */

static void hear_commands(struct sim *sim) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(sim->control) >= sizeof address.sun_path) {
        fprintf(stderr, "shoesim: %s is too long for a socket's name\n", sim->control);
        exit(2);
    }
    strcpy(address.sun_path, sim->control);
    unlink(sim->control);
    sim->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (sim->listener < 0 || bind(sim->listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(sim->listener, 1) != 0)
        die(sim->control);
}

static void read_arguments(struct sim *sim, int count, char **arguments) {
    for (int at = 2; at < count; at++) {
        const char *value = at + 1 < count ? arguments[at + 1] : "";
        if (strcmp(arguments[at], "--dtr-reset") == 0) {
            sim->dtr_reset = true;
            continue;
        }
        if (strcmp(arguments[at], "--pty") == 0)
            sim->link = value;
        else if (strcmp(arguments[at], "--control") == 0)
            sim->control = value;
        else if (strcmp(arguments[at], "--eeprom") == 0)
            sim->eeprom = value;
        else if (strcmp(arguments[at], "--speed") == 0)
            sim->speed = strtoul(value, NULL, 10);
        at++;
    }
    if (count < 2 || sim->link == NULL || sim->control == NULL || sim->speed == 0) {
        fprintf(stderr, "shoesim ELF --pty LINK --control SOCKET [--eeprom FILE] [--speed N] [--dtr-reset]\n");
        exit(2);
    }
}

int main(int count, char **arguments) {
    struct sim sim = {.speed = 1, .terminal = -1, .client = -1};
    read_arguments(&sim, count, arguments);
    sim.bench = bench_new(arguments[1]);
    if (sim.bench == NULL)
        die(arguments[1]);
    signal(SIGTERM, end);
    signal(SIGINT, end);
    signal(SIGPIPE, SIG_IGN);
    load(&sim);
    hear_commands(&sim);
    plug(&sim);
    live(&sim);
    save(&sim);
    unplug(&sim);
    unlink(sim.control);
    bench_free(sim.bench);
    return ended ? 0 : 1;
}
