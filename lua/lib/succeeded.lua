-- Looks at messages that were acked before they go: of which dependencies something is known, since they failed of late. Returns
-- what counts these successes, once they are gone. What is needed where one is down is defined only there.
-- needs: PASS, needs_of; keys: seats, strikes; locals: gated
-- gives: succeeded
local function count(number, acks, probed)
  local name = string.format('%.0f acks', number)
  if redis.call('HEXISTS', strikes, name) == 1 then
    redis.call('HINCRBY', strikes, name, acks)
  end
  if gated then
    -- needs: read_lane, come_back
    local lane = read_lane(number)
    if lane and (lane.open and probed or lane.drains and not lane.paused) then
      come_back(number, lane, acks)
    end
  end
end

-- Whether the probe of a dependency that is down is among them.
local function is_probed(number, ids, needs)
  -- needs: read_lane
  local lane = read_lane(number)
  for n, id in ipairs(lane and lane.open and ids or {}) do
    if needs[n] == number and redis.call('ZSCORE', seats, PASS .. id) then
      return true
    end
  end
end

local function succeeded(ids, texts)
  local numbers, acks, needs, probed = {}, {}, {}, {}
  for n, id in ipairs(ids) do
    local number = needs_of(id, texts[n])
    if number and not acks[number] then
      numbers[#numbers + 1], acks[number] = number, 0
    end
    if number then
      acks[number], needs[n] = acks[number] + 1, number
    end
  end
  for _, number in ipairs(gated and numbers or {}) do
    probed[number] = is_probed(number, ids, needs)
  end
  return function()
    for _, number in ipairs(numbers) do
      count(number, acks[number], probed[number])
    end
  end
end
