// SPDX-License-Identifier: GPL-2.0
/*
 * A sink for a display on I2C: bus 1 of the guest has one slave, at 0x3C, that takes whatever is written to it.
 *
 * /dev/rig_oled gives what came, each transfer as its length (two bytes, the high one first) and its bytes, the address
 * left out; a reader that finds nothing gets EAGAIN. What it does to the bus is in /sys/module/rig_oled/parameters.
 */
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/i2c.h>
#include <linux/kfifo.h>
#include <linux/miscdevice.h>
#include <linux/module.h>

#define ADDRESS 0x3C
#define BUS 1
#define KEPT 65536 /* bytes: sixty frames */

static bool nak;
module_param(nak, bool, 0644);
MODULE_PARM_DESC(nak, "nothing answers: the display is unplugged");

static unsigned int hang_ms;
module_param(hang_ms, uint, 0644);
MODULE_PARM_DESC(hang_ms, "how long a stuck bus holds each transfer up before it times out; 0: it is not stuck");

static unsigned int hz = 400000;
module_param(hz, uint, 0644);
MODULE_PARM_DESC(hz, "speed of the bus");

static unsigned int lost;
module_param(lost, uint, 0444);
MODULE_PARM_DESC(lost, "transfers that nobody read in time");

static DEFINE_KFIFO(written, u8, KEPT); /* one writer, which the bus's lock sees to, and one reader */

static void keep(const struct i2c_msg *msg)
{
	u8 length[2] = { msg->len >> 8, msg->len & 0xFF };

	if (kfifo_avail(&written) < sizeof(length) + msg->len) {
		lost++;
		return;
	}
	kfifo_in(&written, length, sizeof(length));
	kfifo_in(&written, msg->buf, msg->len);
}

static int transfer(struct i2c_adapter *adapter, struct i2c_msg *msgs, int count)
{
	int i;

	for (i = 0; i < count; i++) {
		if (hang_ms) {
			msleep(hang_ms);
			return -ETIMEDOUT;
		}
		if (nak || msgs[i].addr != ADDRESS || (msgs[i].flags & I2C_M_RD))
			return -EREMOTEIO;
		fsleep(9 * 1000000UL * (1 + msgs[i].len) / hz); /* nine bits a byte */
		keep(&msgs[i]);
	}
	return count;
}

static u32 functionality(struct i2c_adapter *adapter)
{
	return I2C_FUNC_I2C | I2C_FUNC_SMBUS_EMUL;
}

static const struct i2c_algorithm algorithm = {
	.master_xfer = transfer,
	.functionality = functionality,
};

static struct i2c_adapter adapter = {
	.owner = THIS_MODULE,
	.name = "rig_oled",
	.algo = &algorithm,
	.nr = BUS,
};

static ssize_t take(struct file *file, char __user *to, size_t size, loff_t *at)
{
	unsigned int copied;
	int error;

	if (kfifo_is_empty(&written))
		return -EAGAIN;
	error = kfifo_to_user(&written, to, size, &copied);
	return error ? error : copied;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.read = take,
	.llseek = noop_llseek,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "rig_oled",
	.fops = &operations,
};

static int __init rig_oled_init(void)
{
	int error = misc_register(&device);

	if (error)
		return error;
	error = i2c_add_numbered_adapter(&adapter);
	if (error)
		misc_deregister(&device);
	return error;
}

static void __exit rig_oled_exit(void)
{
	i2c_del_adapter(&adapter);
	misc_deregister(&device);
}

module_init(rig_oled_init);
module_exit(rig_oled_exit);
MODULE_DESCRIPTION("Sink for a display on I2C");
MODULE_LICENSE("GPL");
