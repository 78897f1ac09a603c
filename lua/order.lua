-- The order of an index (I8): priority, then due time, then send order. The score holds priority and due time. Redis sorts
-- ties of the score by the bytes of the member, so the member begins with the send order. While the message is due when it
-- was born, that is its number within the millisecond, since the score holds the millisecond already (2 bytes, the first 16
-- to 31). Otherwise it is 9 - priority and the whole birth (8 bytes, the first 0 to 9). A message with a key or a
-- dependency always has the long form, so its row is the same in a lane and in `ready` (Seats.enter). A scheduled message
-- is never due in the millisecond of its birth: promote reads the priority from the member.
--
-- The 53 bits of a score are too few for priority, time and a tie-breaker, and a list cannot take a message back at its old
-- position (`tests/benchmarks/layouts.py`).
local BAND = 2 ^ 42

-- The score of a message in `ready`: lower priorities are in later bands.
function Order.score_of(priority, due)
  return (9 - priority) * BAND + due
end

-- The send order, with which a member begins, without its last byte, which is the last byte of the birth.
function Order.order_of(birth, priority, due, is_in_lane)
  local number = birth % 4096
  local last = number % 256
  if not is_in_lane and (birth - number) / 4096 == due then
    return string.char(16 + (number - last) / 256)
  end
  return string.char(9 - priority) .. Values.packed((birth - last) / 256, 6)
end

-- The member of an index that a message has: its send order and its id.
function Order.member_of(id, head, due)
  local birth = head.birth
  return Order.order_of(birth, head.priority, due, head.lane or head.needs) .. string.char(birth % 256) .. id
end

-- The id in a member of an index (the order of an index describes the bytes before it).
function Order.id_of(member)
  return member:sub(member:byte(1) < 16 and 9 or 3)
end

-- When a message is due after a delay: never in the millisecond of its birth, not even after the clock stepped back.
function Order.due_in(q, delay, head)
  local due = q.now + delay
  return due == math.floor(head.birth / 4096) and due + 1 or due
end

-- Whether one member follows the other by bytes, as Redis sorts; Lua compares by the server's locale.
local function is_after(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = one:byte(i), other:byte(i)
    if a ~= b then
      return a > b
    end
  end
  return #one > #other
end

-- How many rows of an index precede (score, member) or are equal to it: those of a lower score, and as many of the same
-- score as a binary search finds.
function Order.rows_up_to(index, score, member)
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

-- The first `range.limit` rows of an index after (range.score, range.member), up to (range.last_score, range.last_member);
-- then the score and the member of the last of them; both empty: no more follow.
function Order.rows_of_range(index, range)
  local low = Order.rows_up_to(index, range.score, range.member)
  local stop = Order.rows_up_to(index, range.last_score, range.last_member)
  local high = math.min(low + range.limit, stop)
  if low >= high then
    return {}, '', ''
  end
  local rows = redis.call('ZRANGE', index, low, high - 1)
  if high >= stop then
    return rows, '', ''
  end
  return rows, redis.call('ZSCORE', index, rows[#rows]), rows[#rows]
end

-- The same of all rows after (score, member).
function Order.rows_after(index, score, member, limit)
  local range = { score = score, member = member, last_score = '+inf', last_member = '\255', limit = limit }
  return Order.rows_of_range(index, range)
end
