-- What one call does at most, however much a queue holds (I9): no other call runs meanwhile.
Bounds.BYTES = 524288 -- of records and histories that it reads or writes, or one message: 2 ms
Bounds.ROWS = 1000 -- rows of an index that it checks, of which most stay as they are
-- Lanes, and messages of lanes: each may take a seat or a slot, or give one back, which admits another message. That takes as
-- long as ten other messages.
Bounds.LANES = 100
