-- Keeps, of the rows that a claim may take, those of messages without a key, or with a seat (lib/with_seats).
-- needs: per_key, paced, narrowed, rows, ids, texts; keys: seats
-- gives: seated
local seated = true
if per_key and #rows > 0 then
  local held = redis.call('ZMSCORE', seats, unpack(ids))
  if narrowed then
    -- needs: narrow
    held = narrow(held, ids)
  end
  for n, row in ipairs(rows) do
    held[n] = held[n] and (not paced or held[n] % 1 > 0) -- lib/BY_RATE
    seated = seated and (held[n] or row:byte() > 15) -- with a key, a row never has the short form (lib/order)
  end
  if not seated then
    -- needs: with_seats
    rows, ids, texts = with_seats(held, rows, ids, texts)
  end
end
