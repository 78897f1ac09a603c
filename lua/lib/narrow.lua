-- After a rule for keys, or the limit of a key, allows fewer messages at work than before: of lanes in which a claim or
-- lib/tend finds seats, takes away those that are too many. Ready messages lose theirs and are blocked, the last ones
-- first; a leased message keeps its own until it is done.
--   held: for each id the score of its seat, or false
-- Returns `held` as it is then, and whether leased messages hold too many seats.
-- needs: free_seats, ready_holders, digits, BY_RATE, block; keys: seats
-- gives: narrow

-- How many lost their seats, and how many seats are still too many.
local function narrow_lane(lane)
  local surplus = -free_seats(lane)
  if surplus <= 0 then
    return 0, 0
  end
  local holders = ready_holders(digits(lane), digits(lane) .. BY_RATE)
  table.sort(holders, function(one, other) return one.rank > other.rank end)
  local losers = math.min(surplus, #holders)
  for n = 1, losers do
    redis.call('ZREM', seats, holders[n].id) -- first: a cut-off script may leave a free seat, never one too many
    block(lane, holders[n].row)
  end
  return losers, surplus - losers
end

local function narrow(held, ids)
  local seen, blocked, left = {}, 0, 0
  for _, score in ipairs(held) do
    local lane = score and score - score % 1 -- lib/BY_RATE
    if lane and lane >= 0 and not seen[lane] then -- not of a place (lib/PLACES)
      seen[lane] = true
      local losers, too_many = narrow_lane(lane)
      blocked, left = blocked + losers, left + too_many
    end
  end
  return blocked > 0 and redis.call('ZMSCORE', seats, unpack(ids)) or held, left > 0
end
