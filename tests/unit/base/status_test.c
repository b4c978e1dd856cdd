/* Faults are bounded, printable and forgiving of NULL. */
#include "base/status.h"

#include <criterion/criterion.h>
#include <string.h>

Test(status, a_fault_holds_what_was_set)
{
    struct fault fault;
    fault_set(&fault, "23505", "duplicate %s in %d", "key", 7);
    cr_expect_str_eq(fault.code, "23505");
    cr_expect_str_eq(fault.text, "duplicate key in 7");
    cr_expect_str_eq(fault.field, "");
    cr_expect_eq(fault.exit_code, EXIT_FAILED);
    fault_set_field(&fault, "notifications_pkey");
    fault.exit_code = EXIT_SCHEMA;
    fault_set(&fault, "json", "again");
    cr_expect_str_eq(fault.field, "", "a new fault starts clean");
    cr_expect_eq(fault.exit_code, EXIT_FAILED);
}

Test(status, long_texts_are_cut_and_controls_replaced)
{
    struct fault fault;
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    fault_set(&fault, text, "%s", text);
    fault_set_field(&fault, text);
    cr_expect_eq(strlen(fault.code), FAULT_CODE_MAX - 1);
    cr_expect_eq(strlen(fault.field), FAULT_FIELD_MAX - 1);
    cr_expect_eq(strlen(fault.text), FAULT_TEXT_MAX - 1);
    fault_set(&fault, "a\nb", "one\ntwo\x1b[31m\x7f gr\xc3\xbc\xc3\x9f");
    cr_expect_str_eq(fault.code, "a?b");
    cr_expect_str_eq(fault.text, "one?two?[31m? gr\xc3\xbc\xc3\x9f");
}

Test(status, null_is_allowed)
{
    fault_set(NULL, "x", "y");
    fault_set_field(NULL, "z");
    fault_reset(NULL);
    struct fault fault = {.code = "x", .exit_code = EXIT_KAFKA};
    fault_reset(&fault);
    cr_expect_str_eq(fault.code, "");
    cr_expect_eq(fault.exit_code, EXIT_FAILED);
}

Test(status, names)
{
    cr_expect_str_eq(status_name(ST_OK), "ok");
    cr_expect_str_eq(status_name(ST_REJECT), "reject");
    cr_expect_str_eq(status_name(ST_RETRY), "retry");
    cr_expect_str_eq(status_name(ST_STOP), "stop");
    cr_expect_str_eq(status_name(ST_FATAL), "fatal");
}
