-- Matches a state line (lib/state) of a message whose lease has lapsed before; captures how often it was charged.
-- gives: lapsed_before
local lapsed_before = '^%a+/?%a* [+-]%S* %d+ %d+ (%d+) %d+ [1-9]'
