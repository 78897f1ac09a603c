-- How many rows of an index precede (score, member) or are equal to it: those of a lower score, and as many of the same
-- score as a binary search finds.
-- gives: rows_up_to

-- By bytes, as Redis sorts; Lua compares by the server's locale.
local function is_after(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = one:byte(i), other:byte(i)
    if a ~= b then
      return a > b
    end
  end
  return #one > #other
end

local function rows_up_to(index, score, member)
  local low = redis.call('ZCOUNT', index, '-inf', '(' .. score)
  local high = low + redis.call('ZCOUNT', index, score, score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_after(redis.call('ZRANGE', index, middle, middle)[1], member) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end
