-- The three balances.
SELECT balance, left_sum, right_sum, ok, detail::text FROM belfry_books;
