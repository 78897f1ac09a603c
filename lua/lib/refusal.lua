-- The verdict on a message that the caller's token does not hold. The state has the token that settled it, so that a call
-- whose reply was lost can be repeated (I12).
-- needs: SETTLED_BEFORE, LOST, GONE; keys: messages
-- gives: refusal
local function refusal(id, token, text)
  if text and text:find(' -' .. token .. ' ', 1, true) then
    return SETTLED_BEFORE
  end
  return redis.call('HEXISTS', messages, id) == 1 and LOST or GONE
end
