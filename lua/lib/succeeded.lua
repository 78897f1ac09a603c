-- Looks at messages that were acked before they go: of which dependencies something is known, since they failed of late. Returns
-- what counts these successes, once they are gone. What is needed where one is down is defined only there.
-- needs: PASS, head_of, read_lane; keys: seats, strikes
-- gives: succeeded
local function count(number, acks, probed)
  local name, lane = string.format('%.0f', number), read_lane(number)
  if redis.call('HEXISTS', strikes, name .. ' acks') == 1 then
    redis.call('HINCRBY', strikes, name .. ' acks', acks)
  end
  if lane and (lane.open and probed or lane.drains and not lane.paused) then
    -- needs: come_back
    come_back(number, lane, acks)
  end
end

local function succeeded(ids, texts)
  local numbers, acks, probed = {}, {}, {}
  for n, id in ipairs(ids) do
    local head = head_of(id, texts[n])
    local number = head and head.needs
    if number then
      if not acks[number] then
        numbers[#numbers + 1], acks[number] = number, 0
      end
      acks[number] = acks[number] + 1
      local lane = read_lane(number)
      probed[number] = probed[number] or lane and lane.open and redis.call('ZSCORE', seats, PASS .. id)
    end
  end
  return function()
    for _, number in ipairs(numbers) do
      count(number, acks[number], probed[number])
    end
  end
end
