-- Makes room for new results (lib/kept): forgets the rows `over`, and the oldest, until there is room for `wanted` bytes.
-- Returns how many bytes the others take, and how many outcomes went before their time.
--   total: the bytes of all before that; limit: the most
-- needs: forget_results; keys: result_times
-- gives: make_room
local MOST, MOST_BYTES = 4400, 33554432 -- rows that one script drops (I9): as many as half a megabyte may need
local AT_ONCE = 100 -- rows that one command reads
local function make_room(over, total, wanted, limit)
  total = total - forget_results(over, math.huge)
  local room, dropped, seen = math.min(total + wanted - limit, MOST_BYTES), 0, 0
  while room > 0 and seen < MOST do
    local oldest = redis.call('ZRANGE', result_times, 0, AT_ONCE - 1)
    if not oldest[1] then
      return 0, dropped -- nothing is left, whatever was counted
    end
    local freed, gone = forget_results(oldest, room)
    total, room, dropped, seen = total - freed, room - freed, dropped + gone, seen + #oldest
  end
  return total, dropped
end
