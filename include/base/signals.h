/* SIGTERM and SIGINT drain and leave; a second one leaves at once (_exit 128 + signal, said in the log by
 * whoever took signals_hurry_fd), a third one without a word. The same signal again within 200 ms is the same
 * wish: timeout(1) tells it to the process and to its group. A stop from inside counts as none of them: a
 * process that already leaves because of a fault keeps its exit code when it is told to stop. SIGHUP asks for
 * a reload. SIGPIPE is ignored. The stop flag is one of the two globals of the program. */
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
/* A descriptor that becomes readable (and stays so) when a second signal came; from this call on the caller
 * says so and leaves with 128 + signals_last(). -1: there is none, the handler leaves by itself. */
int signals_hurry_fd(void);
/* The signal that asked last; 0: none did. */
int signals_last(void);
/* True once per SIGHUP, for the one loop that reloads keys. */
bool signals_take_reload(void);
/* How many SIGHUPs came so far: for others that have something to reload too. */
unsigned signals_reloads(void);

#endif
