/* Arenas hand out zeroed, aligned memory within their maximum, and keep it over a reset. */
#include "base/arena.h"

#include <criterion/criterion.h>
#include <stdalign.h>
#include <stdint.h>

Test(arena, memory_is_zeroed_aligned_and_apart)
{
    struct arena arena;
    unsigned char *last = NULL;
    arena_init(&arena, 1 << 20);
    for (size_t bytes = 0; bytes < 300; bytes++) {
        unsigned char *at = arena_alloc(&arena, bytes);
        cr_assert_not_null(at);
        cr_assert_eq((uintptr_t)at % alignof(max_align_t), 0);
        cr_assert_neq(at, last);
        for (size_t i = 0; i < bytes; i++)
            cr_assert_eq(at[i], 0);
        memset(at, 0xff, bytes);
        last = at;
    }
    arena_done(&arena);
}

Test(arena, a_reset_zeroes_again_and_takes_no_more)
{
    struct arena arena;
    arena_init(&arena, 1 << 20);
    for (int round = 0; round < 3; round++) {
        size_t held = arena.bytes_held;
        for (int i = 0; i < 200; i++) {
            unsigned char *at = arena_alloc(&arena, 1000);
            cr_assert_not_null(at);
            cr_assert_eq(at[0] | at[999], 0);
            memset(at, 0xff, 1000);
        }
        cr_assert(round == 0 || arena.bytes_held == held);
        arena_reset(&arena);
    }
    arena_done(&arena);
    cr_assert_eq(arena.bytes_held, 0);
}

Test(arena, the_maximum_holds)
{
    struct arena arena;
    size_t got = 0;
    arena_init(&arena, 256 * 1024);
    while (arena_alloc(&arena, 1024) != NULL)
        got++;
    cr_expect_gt(got, 200);
    cr_expect_leq(got, 256);
    cr_expect_leq(arena.bytes_held, arena.bytes_max);
    cr_expect_null(arena_alloc(&arena, SIZE_MAX));
    cr_expect_null(arena_array(&arena, SIZE_MAX / 2, 3));
    arena_reset(&arena);
    cr_expect_not_null(arena_alloc(&arena, 1024));
    arena_done(&arena);
}

/* Failed before: full of small blocks, an arena had no room for a big piece any more, also after a reset. */
Test(arena, a_reset_one_has_room_like_a_new_one)
{
    static const size_t sizes[] = {1000, 900 << 10, 100, 300 << 10, 70 << 10, 1 << 20, 64 << 10, 500 << 10};
    struct arena arena;
    arena_init(&arena, 1 << 20);
    for (size_t round = 0; round < 64; round++) {
        size_t bytes = sizes[(round * 5 + round / 8) % 8];
        arena_reset(&arena);
        cr_assert_not_null(arena_alloc(&arena, bytes), "round %zu: %zu bytes", round, bytes);
        while (arena_alloc(&arena, bytes) != NULL)
            cr_assert_leq(arena.bytes_held, arena.bytes_max);
    }
    arena_done(&arena);
}

Test(arena, what_is_in_use_stays_when_room_is_made)
{
    struct arena arena;
    char *kept[8];
    arena_init(&arena, 1 << 20);
    while (arena_alloc(&arena, 60 << 10) != NULL)
        ;
    arena_reset(&arena);
    for (int i = 0; i < 8; i++)
        kept[i] = memset(arena_alloc(&arena, 60 << 10), 'a' + i, 60 << 10);
    cr_assert_null(arena_alloc(&arena, 700 << 10), "nothing in use is given up");
    char *large = arena_alloc(&arena, 400 << 10);
    cr_assert_not_null(large);
    memset(large, 'z', 400 << 10);
    for (int i = 0; i < 8; i++)
        cr_assert(kept[i][0] == 'a' + i && kept[i][(60 << 10) - 1] == 'a' + i);
    arena_done(&arena);
}

Test(arena, a_large_piece_between_small_ones)
{
    struct arena arena;
    arena_init(&arena, 4 << 20);
    char *small = arena_alloc(&arena, 10), *large = arena_alloc(&arena, 1 << 20),
         *next = arena_alloc(&arena, 10);
    cr_assert(small != NULL && large != NULL && next != NULL);
    memset(large, 1, 1 << 20);
    cr_expect_eq(small[0] | next[0], 0);
    arena_done(&arena);
}

Test(arena, copies_end_with_a_nul)
{
    struct arena arena;
    arena_init(&arena, 1 << 20);
    cr_expect_str_eq(arena_copy(&arena, (struct span){"abcdef", 3}), "abc");
    cr_expect_str_eq(arena_copy(&arena, (struct span){NULL, 0}), "");
    char *with_nul = arena_copy(&arena, (struct span){"a\0b", 3});
    cr_expect_eq(memcmp(with_nul, "a\0b\0", 4), 0);
    int *array = arena_array(&arena, 5, sizeof *array);
    cr_expect_eq(array[0] | array[4], 0);
    arena_done(&arena);
}
