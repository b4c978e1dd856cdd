/* SQLSTATE in, status out: design.md §1 point 5 as one table. The longest prefix wins; what is not listed is
 * tried again and rings an alarm, and is never dead-lettered. */
#include <string.h>

#include "io/db.h"

struct verdict {
    const char *prefix;
    const char *constraint; /* NULL: any */
    enum status status;
};

/* First match wins. Our own ids come before their class: a second row with one of those is a broken sequence
 * or clock, not a poison record. */
static const struct verdict verdicts[] = {
    {"23505", "notifications_pkey", ST_STOP},
    {"23505", "dispatches_pkey", ST_STOP},
    {"23505", "batches_pkey", ST_STOP},
    {"23505", "device_tokens_pkey", ST_STOP},
    {"53200", NULL, ST_REJECT}, /* out of memory: half the batch may fit */
    {"57014", NULL, ST_REJECT}, /* our statement_timeout */
    {"57P", NULL, ST_RETRY},
    {"21", NULL, ST_REJECT},
    {"22", NULL, ST_REJECT},
    {"23", NULL, ST_REJECT},
    {"54", NULL, ST_REJECT},
    {"08", NULL, ST_RETRY},
    {"25", NULL, ST_RETRY},
    {"40", NULL, ST_RETRY},
    {"53", NULL, ST_RETRY},
    {"55", NULL, ST_RETRY},
    {"58", NULL, ST_RETRY},
    {"0A", NULL, ST_STOP},
    {"28", NULL, ST_STOP},
    {"3D", NULL, ST_STOP},
    {"3F", NULL, ST_STOP},
    {"42", NULL, ST_STOP},
    {"XX", NULL, ST_STOP},
};

enum status db_judge(const char *sqlstate, const char *constraint, bool *alarm)
{
    if (alarm != NULL)
        *alarm = false;
    for (size_t i = 0; i < sizeof verdicts / sizeof verdicts[0]; i++) {
        const struct verdict *row = &verdicts[i];
        if (strncmp(sqlstate, row->prefix, strlen(row->prefix)) != 0)
            continue;
        if (row->constraint != NULL && (constraint == NULL || strcmp(constraint, row->constraint) != 0))
            continue;
        return row->status;
    }
    if (alarm != NULL)
        *alarm = true;
    return ST_RETRY;
}
