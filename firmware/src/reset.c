/* What comes before main: the cause of the reset is kept, and the watchdog runs from the first instruction on. */
#include <avr/io.h>
#include <avr/wdt.h>

#include "hal.h"

uint8_t hal_reset_cause __attribute__((section(".noinit"))); /* written here, before memory is cleared */

void reset_first(void) __attribute__((naked, used, section(".init3")));

/* WDRF holds the watchdog at its shortest time until it is cleared (p. 64). */
void reset_first(void) {
    hal_reset_cause = MCUSR;
    MCUSR = 0;
    wdt_enable(WDTO_120MS);
}
