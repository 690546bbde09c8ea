/* Runs a host test, unchanged, on the chip: what it prints goes to the line, and at its end how many were not so. */
#include <avr/io.h>
#include <stdio.h>

int test_main(void); /* the test's own main */

static int put(char letter, FILE *line) {
    (void)line;
    while ((UCSR0A & _BV(UDRE0)) == 0)
        ;
    UDR0 = (uint8_t)letter;
    return 0;
}

static FILE line = FDEV_SETUP_STREAM(put, NULL, _FDEV_SETUP_WRITE);

int main(void) {
    stdout = &line;
    UCSR0A = _BV(U2X0);
    UBRR0 = 1; /* 1 Mbaud: the simulator does not mind */
    UCSR0B = _BV(TXEN0);
    printf("not so: %d\n", test_main());
    for (;;)
        ;
}
