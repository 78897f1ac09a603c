-- Lets in `count` blocked messages, from all lanes alike.
-- needs: BLOCKED, let_in, is_gated; keys: scheduled; args: seed
-- gives: fill
local LANES = 100 -- lanes that fill one claim (I9)

local function fill(count)
  local lanes, score = {}, string.format('%.0f', BLOCKED)
  for _ = 1, LANES do
    if not score or #lanes == count then
      break
    end
    score = redis.call('ZRANGEBYSCORE', scheduled, score, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    local lane = score and math.floor(tonumber(score)) - BLOCKED -- lib/TRIED
    lanes[#lanes + 1] = lane and not is_gated(lane) and lane or nil
    score = score and '(' .. score
  end
  if #lanes == 0 then
    return
  end
  local share, first, room = math.floor(count / #lanes), math.floor(tonumber(seed) * #lanes), {}
  for n = 1, #lanes do -- by the seed, since not all can have the rest
    room[lanes[(first + n) % #lanes + 1]] = n <= count - share * #lanes and share + 1 or share
  end
  let_in(lanes, room)
end
