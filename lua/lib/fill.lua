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
    local lane = score and tonumber(score) - BLOCKED
    lanes[#lanes + 1] = lane and not is_gated(lane) and lane or nil
    score = score and '(' .. score
  end
  if #lanes == 0 then
    return
  end
  local share, first, one_more = math.floor(count / #lanes), math.floor(tonumber(seed) * #lanes), {}
  let_in(lanes, share)
  for n = 1, count - share * #lanes do
    one_more[n] = lanes[(first + n) % #lanes + 1]
  end
  let_in(one_more, 1)
end
