-- After a rule for keys, or the limit of a key, allows fewer messages at work than before: of the lanes in which a claim finds
-- seats, takes away those that are too many. Ready messages lose theirs and are blocked, the last ones first; a leased
-- message keeps its own until it is done.
--   held: for each id the score of its seat, or false
-- Returns `held` as it is then.
-- needs: free_seats, ready_holders, digits, BY_RATE, block; keys: seats
-- gives: narrow
local function narrow_lane(lane)
  local surplus = -free_seats(lane)
  if surplus <= 0 then
    return false
  end
  local holders = ready_holders(digits(lane), digits(lane) .. BY_RATE)
  table.sort(holders, function(one, other) return one.rank > other.rank end)
  for n = 1, math.min(surplus, #holders) do
    redis.call('ZREM', seats, holders[n].id) -- first: a cut-off script may leave a free seat, never one too many
    block(lane, holders[n].row)
  end
  return #holders > 0
end

local function narrow(held, ids)
  local seen, any = {}, false
  for _, score in ipairs(held) do
    local lane = score and score - score % 1 -- lib/BY_RATE
    if lane and not seen[lane] then
      seen[lane] = true
      any = narrow_lane(lane) or any
    end
  end
  return any and redis.call('ZMSCORE', seats, unpack(ids)) or held
end
