/* What a caller must do next, and the detail that goes with it.
 *
 * Every function that can fail returns enum status and takes a caller-owned struct fault for the detail.
 * Out-parameters are written only on ST_OK. Lower layers never log: they fill a fault; the loops and bin/
 * log it. A fault never holds a token, a title, a body, a secret or a connection string. */
#ifndef BELFRY_BASE_STATUS_H
#define BELFRY_BASE_STATUS_H

enum status {
    ST_OK,     /* done */
    ST_REJECT, /* this item never succeeds: dead-letter it, answer 4xx, split the batch */
    ST_RETRY,  /* the outside failed; the same call may succeed later */
    ST_STOP,   /* nothing moved, and nothing will until an operator acts: not ready, try again slowly */
    ST_FATAL   /* this process cannot go on: leave with fault.exit_code */
};

/* Exit codes of every binary (contracts/config.md). */
enum exit_code {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,  /* usage or configuration */
    EXIT_AUDIT = 3,  /* an audit found something */
    EXIT_SCHEMA = 4, /* schema not usable */
    EXIT_KAFKA = 5   /* fatal client error of Kafka: fenced, unauthorised */
};

enum { FAULT_CODE_MAX = 48, FAULT_FIELD_MAX = 96, FAULT_TEXT_MAX = 800 };

struct fault {
    char code[FAULT_CODE_MAX];   /* stable: a reason code, an SQLSTATE, a Kafka error name */
    char field[FAULT_FIELD_MAX]; /* the member, key or constraint at fault; "" when none */
    char text[FAULT_TEXT_MAX];   /* one sentence for a person; control characters are replaced by '?' */
    enum exit_code exit_code;    /* for ST_FATAL; EXIT_FAILED unless set */
};

#define MUST_USE __attribute__((warn_unused_result))

void fault_reset(struct fault *fault);

/* Fills code and text, clears field, sets exit_code to EXIT_FAILED. NULL fault is allowed. */
void fault_set(struct fault *fault, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Sets the field name, after fault_set. Longer names are cut. */
void fault_set_field(struct fault *fault, const char *field);

/* "ok", "reject", "retry", "stop", "fatal" */
const char *status_name(enum status status);

#endif
