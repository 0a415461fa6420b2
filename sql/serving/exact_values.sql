-- Scalar macros for results that are known to the last digit: the nearest double, the sides around it, and their text.
--
-- Purpose:    a sum of whole numbers or decimals is `units` of the last of `digits` digits after the point, an average
--             that by `terms`. A double holds whole numbers below 2^53 and reads as any decimal of 15 digits; of what
--             it does not hold, the sides are the doubles next to it. The macros of ranges and `ask --exact` share these.
-- Parameters: units     HUGEINT, null where the result is not known to the last digit
--             terms     what it is divided by, 1 for a sum; more than 0
--             digits    digits after the point
-- Usage:      SELECT decimal_text(1234, 2), nearest_double(1234, 1, 2), nearest_double(10, 3, 0);

CREATE MACRO digits_of(divisor) AS CAST(round(log10(divisor)) AS INTEGER);

CREATE MACRO ten_to(exponent) AS CAST(concat('1e', exponent) AS HUGEINT);

-- As many digits as fit, as text, because a cast of text is rounded right: a cast of 128 bits is not.
CREATE MACRO quotient_text(units, terms, digits, more) AS
    CAST(units * ten_to(more) // terms AS VARCHAR) || 'e-' || (digits + more);

CREATE MACRO nearest_double(units, terms, digits) AS
    CAST(quotient_text(units, terms, digits, greatest(37 - length(CAST(units AS VARCHAR)), 0)) AS DOUBLE);

CREATE MACRO is_held(units, terms, digits, nearest) AS CASE
    WHEN abs(units) >= ten_to(30) THEN false
    -- The double itself, in parts of 2^-20.
    WHEN digits = 0 THEN CAST(nearest * 1048576 AS HUGEINT) * terms = units * 1048576
    WHEN units % terms = 0 THEN abs(units // terms) < {read_back}
    -- A quotient of up to six digits more.
    WHEN abs(units) < 1000000000 * CAST(terms AS HUGEINT) THEN units * 1000000 % terms = 0
    ELSE false
END;

CREATE MACRO decimal_text(units, digits) AS CASE WHEN digits = 0 THEN CAST(units AS VARCHAR) ELSE
    CASE WHEN units < 0 THEN '-' ELSE '' END || (abs(units) // ten_to(digits)) || '.'
        || lpad(CAST(abs(units) % ten_to(digits) AS VARCHAR), digits, '0')
END;
