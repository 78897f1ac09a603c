-- The first rows of the index that a claim takes from, as many as it may lease, with their ids and states. A worker's claim
-- takes a suspect alone, if it is first, or skips suspects; a claim of dead letters skips those that rest. `only_suspects`:
-- whether no other rows are there.
-- needs: reply, source, capacity, lapsed_before; keys: states; args: part, suspects
-- gives: rows, more, ids, texts, marked, long, only_suspects
local rows, ids = capacity > 0 and redis.call('ZRANGE', source, 0, capacity) or {}, {} -- and one more, if it exists
local byte, sub, more = string.byte, string.sub, #rows > capacity
rows[capacity + 1] = nil
for n, row in ipairs(rows) do
  ids[n] = sub(row, byte(row) < 16 and 9 or 3) -- as lib/id_of
end
local texts = #ids > 0 and redis.call('HMGET', states, unpack(ids)) or {}
local mark = part ~= 'live' and ' rest=' or suspects ~= 'all' and lapsed_before
local marked, long = false, #ids > 250 -- long: read records some at a time (lib/read_records)
for _, text in ipairs(texts) do
  if text then
    marked, long = marked or mark and text:find(mark), long or text:find(' head=', 1, true)
  end
end
if marked then
  -- needs: past_others
  rows, ids, texts = past_others(source, capacity, reply)
  long = true -- perhaps
end
local only_suspects = marked and #rows == 0
