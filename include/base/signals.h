/* SIGTERM and SIGINT drain and leave; a second one leaves at once (_exit 128 + signal). SIGHUP asks for a
 * reload. SIGPIPE is ignored. The stop flag is one of the two globals of the program. */
#ifndef BELFRY_BASE_SIGNALS_H
#define BELFRY_BASE_SIGNALS_H

#include <stdbool.h>

/* Installs the handlers; call once, before any thread starts. */
void signals_open(void);
/* True once the process was asked to stop, by a signal or by signals_stop. */
bool signals_stopping(void);
/* Asks for the stop from inside: a loop that met ST_FATAL. */
void signals_stop(void);
/* A descriptor that becomes readable (and stays so) when the stop is asked for: for poll(2). */
int signals_stop_fd(void);
/* True once per SIGHUP, for the one loop that reloads keys. */
bool signals_take_reload(void);
/* How many SIGHUPs came so far: for others that have something to reload too. */
unsigned signals_reloads(void);

#endif
