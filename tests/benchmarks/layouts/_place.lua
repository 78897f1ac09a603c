-- A place in a sorted set: the score says priority and due time, the member begins with the send order.
local BAND = 2 ^ 42
local last_score, last_text

-- As text, made once for all that stand alike: Redis prints a Lua number of this size slowly.
local function score_of(priority, due)
  local score = (9 - priority) * BAND + due
  if score ~= last_score then
    last_score, last_text = score, string.format('%.0f', score)
  end
  return last_text
end

-- 2 bytes (16.., the number within its millisecond) at its birth place, else 8 bytes (9 - priority, birth).
local function member_of(id, priority, birth, due)
  local number = birth % 4096
  if birth - number == due * 4096 then
    return string.char(16 + math.floor(number / 256), number % 256) .. id
  end
  return string.char(9 - priority) .. pack_number(birth, 7) .. id
end

-- The due time of a ready message; - where it stands at its birth place.
local function due_of(member)
  return member:byte(1) >= 16 and '-' or redis.call('ZSCORE', ready, member) % BAND
end

local function id_of(member)
  return member:sub(member:byte(1) < 16 and 9 or 3)
end
