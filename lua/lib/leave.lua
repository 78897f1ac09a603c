-- Removes the old row of a message that waited. The last step of a move or a removal: by that row a claim finds what a
-- cut-off script left.
--   new_index, new_row: the row that it has now, which stays, as lib/put returns it; nil: it has none, or is buried
-- needs: keys: ready, scheduled, expiring
-- gives: leave
local function leave(id, index, row, new_index, new_row)
  if new_index ~= ready and new_index ~= scheduled then -- its time to live has ended
    redis.call('ZREM', expiring, id)
  end
  if new_index ~= index or new_row ~= row then
    redis.call('ZREM', index, row)
  end
end
