/* Faults: bounded, printable, owned by the caller. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void make_printable(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
    }
}

void fault_reset(struct fault *fault)
{
    if (fault == NULL)
        return;
    memset(fault, 0, sizeof *fault);
    fault->exit_code = EXIT_FAILED;
}

void fault_set(struct fault *fault, const char *code, const char *format, ...)
{
    if (fault == NULL)
        return;
    fault_reset(fault);
    snprintf(fault->code, sizeof fault->code, "%s", code);
    va_list args;
    va_start(args, format);
    vsnprintf(fault->text, sizeof fault->text, format, args);
    va_end(args);
    make_printable(fault->code);
    make_printable(fault->text);
}

void fault_set_field(struct fault *fault, const char *field)
{
    if (fault == NULL)
        return;
    snprintf(fault->field, sizeof fault->field, "%s", field);
    make_printable(fault->field);
}

const char *status_name(enum status status)
{
    switch (status) {
    case ST_OK:
        return "ok";
    case ST_REJECT:
        return "reject";
    case ST_RETRY:
        return "retry";
    case ST_STOP:
        return "stop";
    case ST_FATAL:
        return "fatal";
    }
    return "unknown";
}
