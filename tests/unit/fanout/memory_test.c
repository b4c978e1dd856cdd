/* Tries and projects: bounded, and never somebody else's. */
#include "memory.h"

#include <criterion/criterion.h>
#include <stdio.h>

#include "model/dispatch.h"

static struct memory made(void)
{
    struct memory memory;
    struct fault fault;
    cr_assert_eq(memory_init(&memory, &fault), ST_OK);
    return memory;
}

static struct memory_tries tries(uint32_t count)
{
    return (struct memory_tries){.any = true, .count = count, .answers = 5 + count};
}

Test(fanout_memory, tries_are_of_the_very_dispatch)
{
    struct memory memory = made();
    for (int64_t batch = 7; batch < 13; batch++) {
        for (uint32_t ordinal = 0; ordinal < 100; ordinal++)
            memory_set_tries(&memory, dispatch_id(batch, ordinal), tries(ordinal % 3));
    }
    for (int64_t batch = 7; batch < 13; batch++) {
        for (uint32_t ordinal = 0; ordinal < 100; ordinal++) {
            struct memory_tries found = memory_tries(&memory, dispatch_id(batch, ordinal));
            cr_expect(found.any && found.count == ordinal % 3 && found.answers == 5 + ordinal % 3);
        }
    }
    cr_expect_not(memory_tries(&memory, dispatch_id(13, 0)).any);
    for (uint32_t ordinal = 0; ordinal < 2 * MEMORY_TRIES; ordinal++)
        memory_set_tries(&memory, dispatch_id(20, ordinal), tries(2));
    cr_expect_not(memory_tries(&memory, dispatch_id(20, 1)).any, "forgotten for a newcomer");
    cr_expect_eq(memory_tries(&memory, dispatch_id(20, MEMORY_TRIES + 1)).count, 2);
    memory_set_tries(&memory, dispatch_id(20, MEMORY_TRIES + 1), (struct memory_tries){.any = false});
    cr_expect_not(memory_tries(&memory, dispatch_id(20, MEMORY_TRIES + 1)).any);
    memory_done(&memory);
}

Test(fanout_memory, projects_by_name_as_many_as_there_is_room_for)
{
    struct memory memory = made();
    char name[32];
    cr_expect_eq(memory_project_named(&memory, ""), 0);
    for (size_t i = 1; i < MEMORY_PROJECTS_MAX; i++) {
        snprintf(name, sizeof name, "@owner/app-%zu", i);
        cr_expect_eq(memory_project_named(&memory, name), i);
        cr_expect_eq(memory_project_named(&memory, name), i);
    }
    cr_expect_eq(memory_project_named(&memory, "@one/too-many"), 0);
    memory_set_project(&memory, 42, 3);
    cr_expect_eq(memory_project(&memory, 42), 3);
    cr_expect_eq(memory_project(&memory, 42 + MEMORY_DEVICES), 0);
    memory_done(&memory);
}
